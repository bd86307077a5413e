"""Frames of Server-Sent Events, as OpenAI's clients expect them.

Text of a model is only ever inside JSON with everything but ASCII escaped, so no line separator in it can break a
frame. What is the same in every chunk of a stream is encoded once: a token costs no more than its own text. Does
not know who sends the frames.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

DONE = "data: [DONE]\n\n"
PING = b": ping\n\n"

__all__ = ["DONE", "PING", "ChunkFrames", "compact", "frame", "quoted"]


def compact(payload: Any) -> str:
    """JSON in ASCII."""
    return json.dumps(payload, separators=(",", ":"), allow_nan=False)


def frame(payload: dict[str, Any]) -> str:
    """One event."""
    return f"data: {compact(payload)}\n\n"


class ChunkFrames:
    """The chunks of one stream: `head` is what they share; with `usage` each has a field for it."""

    def __init__(self, head: dict[str, Any], *, usage: bool) -> None:
        self._before = f'data: {compact(head)[:-1]},"choices":['
        self._after = ',"usage":null}\n\n' if usage else "}\n\n"

    def choice(self, choice: str, extra: str = "") -> str:
        """A chunk with one choice (JSON); `extra`: more fields of the chunk, each after a comma."""
        return f"{self._before}{choice}]{extra}{self._after}"

    def usage(self, usage: dict[str, Any]) -> str:
        """The last chunk, which has no choices."""
        return f'{self._before}],"usage":{compact(usage)}}}\n\n'
