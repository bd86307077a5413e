"""An upstream that sends what a test scripts, to the byte: a plain server, since web frameworks do not misbehave.

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
class Asked:
    """A request, and whether its client is still there."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    writer: asyncio.StreamWriter
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def respond(self, status: int, body: bytes, **headers: str) -> None:
        """A whole response."""
        named = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        await self.write(f"HTTP/1.1 {status} X\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body)

    async def begin_stream(self, **headers: str) -> None:
        named = {"content-type": "text/event-stream", **{k.replace("_", "-"): v for k, v in headers.items()}}
        head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        await self.write(f"HTTP/1.1 200 OK\r\n{head}connection: close\r\n\r\n".encode())

    async def say(self, *events: Any) -> None:
        """Events: JSON, or text as it stands."""
        for event in events:
            await self.write(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode())


Script = Callable[[Asked], Awaitable[None]]


class ScriptedUpstream:
    """A server on a port of its own; `asked` is what it saw."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts = list(scripts)
        self.asked: list[Asked] = []
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
            asked = Asked(head[0].split(" ")[1], headers, body, writer)
            self.asked.append(asked)
            script = self.scripts[min(len(self.asked), len(self.scripts)) - 1]
            watch = asyncio.create_task(self._watch(reader, asked))
            try:
                await script(asked)
            finally:
                watch.cancel()
        writer.close()

    async def _watch(self, reader: asyncio.StreamReader, asked: Asked) -> None:
        with suppress(ConnectionError):
            while await reader.read(1024):
                pass
        asked.gone.set()


def chunk(text: str | None = None, *, choice: int = 0, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """A chunk of a chat."""
    said = ({} if text is None else {"content": text}) | delta
    return {
        "id": "x",
        "object": "chat.completion.chunk",
        "choices": [{"index": choice, "delta": said, "finish_reason": finish}],
    }


def usage(prompt: Any = 7, completion: Any = 3) -> dict[str, Any]:
    """The chunk with the usage."""
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}


def answer(*texts: str, end: tuple[Any, ...] = (usage(), "[DONE]"), finish: str = "stop") -> Script:
    """A good answer."""

    async def script(asked: Asked) -> None:
        await asked.begin_stream()
        await asked.say(chunk(role="assistant"), *map(chunk, texts), chunk(finish=finish), *end)

    return script


def events(*said: Any) -> Script:
    """These events, then the end of the connection."""

    async def script(asked: Asked) -> None:
        await asked.begin_stream()
        await asked.say(*said)

    return script


def events_then_silence(*said: Any) -> Script:
    """These events, then nothing until the client goes."""

    async def script(asked: Asked) -> None:
        await asked.begin_stream()
        await asked.say(*said)
        await asked.gone.wait()

    return script


def status(code: int, body: Any = None, **headers: str) -> Script:
    """A plain response."""

    async def script(asked: Asked) -> None:
        await asked.respond(code, body if isinstance(body, bytes) else json.dumps(body).encode(), **headers)

    return script


async def silence(asked: Asked) -> None:
    """Not a byte."""
    await asked.gone.wait()


async def byte_by_byte(asked: Asked) -> None:
    """A byte now and then: never an event."""
    await asked.begin_stream()
    for byte in b": " + b"x" * 10_000:
        if asked.gone.is_set():
            return
        await asked.write(bytes([byte]))
        await asked.write(b"\n: " if byte == 0x20 else b"")
        await asyncio.sleep(0.02)


async def hang_up(asked: Asked) -> None:
    """Not a byte, and the connection closed."""
    asked.writer.close()
