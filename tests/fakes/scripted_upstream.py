"""A fake upstream that sends the exact bytes of a script: a plain server, as web frameworks send valid HTTP only.

Each request is answered by the next script; the last one answers all further requests.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Request:
    """A received request; `disconnected` is set when its client closes the connection."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    writer: asyncio.StreamWriter
    disconnected: asyncio.Event = field(default_factory=asyncio.Event)

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def respond(self, status: int, body: bytes, **headers: str) -> None:
        """Send a complete response."""
        named = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        await self.write(f"HTTP/1.1 {status} X\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body)

    async def begin_stream(self, **headers: str) -> None:
        named = {"content-type": "text/event-stream", **{k.replace("_", "-"): v for k, v in headers.items()}}
        head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        await self.write(f"HTTP/1.1 200 OK\r\n{head}connection: close\r\n\r\n".encode())

    async def send_events(self, *events: Any) -> None:
        """Send events: JSON values, or strings unchanged."""
        for event in events:
            await self.write(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode())


Script = Callable[[Request], Awaitable[None]]


class ScriptedUpstream:
    """A server on its own port; `requests` are those received."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts = list(scripts)
        self.requests: list[Request] = []
        self.url = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ScriptedUpstream]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:] if line)}
            body = json.loads(await reader.readexactly(int(headers["content-length"])))
            request = Request(head[0].split(" ")[1], headers, body, writer)
            self.requests.append(request)
            script = self.scripts[min(len(self.requests), len(self.scripts)) - 1]
            watch = asyncio.create_task(self._watch(reader, request))
            try:
                await script(request)
            finally:
                watch.cancel()
        writer.close()

    async def _watch(self, reader: asyncio.StreamReader, request: Request) -> None:
        with suppress(ConnectionError):
            while await reader.read(1024):
                pass
        request.disconnected.set()


def chunk(text: str | None = None, *, choice: int = 0, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """Return a chunk of a chat."""
    message = ({} if text is None else {"content": text}) | delta
    return {
        "id": "x",
        "object": "chat.completion.chunk",
        "choices": [{"index": choice, "delta": message, "finish_reason": finish}],
    }


def usage(prompt: Any = 7, completion: Any = 3) -> dict[str, Any]:
    """Return the chunk with the usage."""
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}


def answer(*texts: str, end: tuple[Any, ...] = (usage(), "[DONE]"), finish: str = "stop") -> Script:
    """Return a script that streams a valid answer."""

    async def script(request: Request) -> None:
        await request.begin_stream()
        await request.send_events(chunk(role="assistant"), *map(chunk, texts), chunk(finish=finish), *end)

    return script


def events(*values: Any) -> Script:
    """Return a script that sends events, then closes the connection."""

    async def script(request: Request) -> None:
        await request.begin_stream()
        await request.send_events(*values)

    return script


def events_then_silence(*events: Any) -> Script:
    """Return a script that sends events, then nothing until the client disconnects."""

    async def script(request: Request) -> None:
        await request.begin_stream()
        await request.send_events(*events)
        await request.disconnected.wait()

    return script


def status(code: int, body: Any = None, **headers: str) -> Script:
    """Return a script that sends a complete response."""

    async def script(request: Request) -> None:
        await request.respond(code, body if isinstance(body, bytes) else json.dumps(body).encode(), **headers)

    return script


async def silence(request: Request) -> None:
    """Send nothing until the client disconnects."""
    await request.disconnected.wait()


async def byte_by_byte(request: Request) -> None:
    """Send single bytes that never complete an event."""
    await request.begin_stream()
    for byte in b": " + b"x" * 10_000:
        if request.disconnected.is_set():
            return
        await request.write(bytes([byte]))
        await request.write(b"\n: " if byte == 0x20 else b"")
        await asyncio.sleep(0.02)


async def hang_up(request: Request) -> None:
    """Close the connection without an answer."""
    request.writer.close()
