"""Minimal upstream server for a measured proxy: answers any POST with a stream of 16 tokens at once.

A client measures the stub's own latency; the rest of a proxy's latency is the proxy's. Run as a process:
`python -m benchmarks.platform_stub PORT`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, cast

import uvloop

TOKENS = 16
_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


def answer() -> list[bytes]:
    """Return the stub's response body: a stream of `TOKENS` tokens in OpenAI's form, one HTTP chunk per event."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": f"{number} "} for number in range(TOKENS)]
    choices = [_choice(delta, None) for delta in deltas] + [_choice({}, "length")]
    usage = {"prompt_tokens": 9, "completion_tokens": TOKENS, "total_tokens": 9 + TOKENS}
    frames = [_frame(each) for each in choices] + [_frame([], usage=usage), b"data: [DONE]\n\n"]
    return [b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames] + [b"0\r\n\r\n"]


def _choice(delta: dict[str, Any], finish_reason: str | None) -> list[dict[str, Any]]:
    return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}]


def _frame(choices: list[dict[str, Any]], **more: Any) -> bytes:
    head = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "counting"}
    return b"data: " + json.dumps({**head, "choices": choices, **more}, separators=(",", ":")).encode() + b"\n\n"


class Stub(asyncio.Protocol):
    """Reads requests with a Content-Length and answers each with the same stream."""

    pieces = answer()

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the new connection for the answers; asyncio calls this."""
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's derive from nothing of asyncio's

    def data_received(self, data: bytes) -> None:
        """Answer each request that has arrived completely with the fixed stream; asyncio calls this with arrived bytes.

        Incomplete requests are kept until the rest arrives.
        """
        self._unread += data
        while (whole := _request_length(self._unread)) and len(self._unread) >= whole:
            self._unread = self._unread[whole:]
            self._answer()

    def _answer(self) -> None:
        self._transport.write(_HEAD)
        for piece in self.pieces:
            self._transport.write(piece)


def _request_length(data: bytes) -> int:
    """Return the length in bytes of the first request in `data`; 0 while its headers are incomplete."""
    head, found, _ = data.partition(b"\r\n\r\n")
    if not found:
        return 0
    lengths = [line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return len(head) + 4 + (int(lengths[0]) if lengths else 0)


async def serve(port: int) -> None:
    """Serve the stub upstream on the loopback port `port` until cancelled."""
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
