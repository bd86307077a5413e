"""Encodes the gateway's streamed chunks as Server-Sent Events, in the form that OpenAI's clients expect.

Generated text occurs only inside JSON in which everything but ASCII is escaped, so a line separator in it can't break a
frame. The parts that all chunks of a stream share are encoded once.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

DONE = "data: [DONE]\n\n"
MESSAGE_STOP = 'event: message_stop\ndata: {"type":"message_stop"}\n\n'
LAST_LINE_END = ',"done":true}\n'
STREAM_ENDS = (DONE.encode(), MESSAGE_STOP.encode(), LAST_LINE_END.encode())
"""Ends of whole streams of OpenAI's, Anthropic's and Ollama's API. No other event ends so, as text in it is JSON."""
PING = b": ping\n\n"

__all__ = ["DONE", "LAST_LINE_END", "MESSAGE_STOP", "PING", "STREAM_ENDS", "ChunkFrames", "compact", "frame", "quoted"]


def compact(payload: Any) -> str:
    """Encode a value as JSON in ASCII without white space, for event frames."""
    return json.dumps(payload, separators=(",", ":"), allow_nan=False)


def frame(payload: dict[str, Any]) -> str:
    """Encode `payload` as a Server-Sent Events frame with JSON data."""
    return f"data: {compact(payload)}\n\n"


class ChunkFrames:
    """Encodes one stream's chunks as event frames. `fields` are in every chunk; with `usage` also `"usage": null`."""

    def __init__(self, fields: dict[str, Any], *, usage: bool) -> None:
        self._before = f'data: {compact(fields)[:-1]},"choices":['
        self._after = ',"usage":null}\n\n' if usage else "}\n\n"

    def choice(self, choice: str, extra: str = "") -> str:
        """Return the event frame of a stream's chunk with one `choice` (JSON).

        `extra` has further fields, each after a comma.
        """
        return f"{self._before}{choice}]{extra}{self._after}"

    def usage(self, usage: dict[str, Any]) -> str:
        """Return the event frame of a stream's last chunk, which has the usage and no choices."""
        return f'{self._before}],"usage":{compact(usage)}}}\n\n'
