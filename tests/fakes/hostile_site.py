"""A web server for hostile responses: each path has a handler that writes raw bytes to the connection."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Handler = Callable[[asyncio.StreamWriter], Awaitable[None]]


def response(body: bytes, *, status: int = 200, content_type: str = "text/html", **headers: str) -> Handler:
    """Return a handler that sends a complete response."""
    named = {"content-type": content_type, "content-length": str(len(body)), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items())

    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body)
        await writer.drain()

    return send


def redirect(location: str, status: int = 302) -> Handler:
    """Return a handler that redirects to another address."""
    return response(b"", status=status, location=location)


class HostileSite:
    """A server on one address; `requests` are the heads of the requests that it received."""

    def __init__(self, address: str = "127.0.0.2", tls: ssl.SSLContext | None = None) -> None:
        self.address = address
        self.port = 0
        self.paths: dict[str, Handler] = {}
        self.requests: list[list[str]] = []
        self._tls = tls
        self._connections: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[HostileSite]:
        server = await asyncio.start_server(self._serve, self.address, 0, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for each in self._connections:
                each.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(asyncio.create_task(self._answer(reader, writer)))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                self.requests.append([line for line in head if line])
                path = head[0].split(" ")[1].partition("?")[0]
                await self.paths.get(path, response(b"", status=404))(writer)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError, ssl.SSLError, TimeoutError):
                await asyncio.wait_for(writer.wait_closed(), 1.0)
