"""Encodes Server-Sent Events as OpenAI's clients expect them.

Generated text occurs only inside JSON in which everything but ASCII is escaped, so a line separator in it can't break a
frame. The parts that all chunks of a stream share are encoded once.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

DONE = "data: [DONE]\n\n"
PING = b": ping\n\n"

__all__ = ["DONE", "PING", "ChunkFrames", "compact", "frame", "quoted"]


def compact(payload: Any) -> str:
    """Return a value as JSON in ASCII without white space."""
    return json.dumps(payload, separators=(",", ":"), allow_nan=False)


def frame(payload: dict[str, Any]) -> str:
    """Return an event whose data is `payload` as JSON."""
    return f"data: {compact(payload)}\n\n"


class ChunkFrames:
    """Encoder of one stream's chunks. `fields` are in every chunk; with `usage` each chunk has a `usage` field."""

    def __init__(self, fields: dict[str, Any], *, usage: bool) -> None:
        self._before = f'data: {compact(fields)[:-1]},"choices":['
        self._after = ',"usage":null}\n\n' if usage else "}\n\n"

    def choice(self, choice: str, extra: str = "") -> str:
        """Return a chunk with one choice (JSON). `extra`: further fields of the chunk, each after a comma."""
        return f"{self._before}{choice}]{extra}{self._after}"

    def usage(self, usage: dict[str, Any]) -> str:
        """Return the last chunk, which has the usage and no choices."""
        return f'{self._before}],"usage":{compact(usage)}}}\n\n'
