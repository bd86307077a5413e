"""One HTTP exchange on its own connection, under the client's control to the byte: disconnect, reset, read slowly.

h11 frames the messages.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

import h11

from tests.chaos.tcp_proxy import RESET_ON_CLOSE

CHUNK = 16384


class Broken(Exception):
    """The connection went before the answer was complete."""


class Exchange:
    """A POST and its answer. `pause`: seconds between two reads of a client that dawdles."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, pause: float = 0.0) -> None:
        self._reader = reader
        self._writer = writer
        self._pause = pause
        self._http = h11.Connection(our_role=h11.CLIENT, max_incomplete_event_size=1 << 20)

    @classmethod
    async def post(
        cls, port: int, path: str, headers: Mapping[str, str], body: bytes, *, pause: float = 0.0
    ) -> Exchange:
        """Connect and ask.

        Raises:
            OSError: the connection was refused.
        """
        small = 1024 if pause else 1 << 16
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=small)
        exchange = cls(reader, writer, pause=pause)
        own = {"host": f"127.0.0.1:{port}", "connection": "close", "content-length": str(len(body))}
        request = h11.Request(method="POST", target=path, headers=list({**own, **headers}.items()))
        for event in (request, h11.Data(data=body), h11.EndOfMessage()):
            exchange._writer.write(exchange._http.send(event) or b"")
        return exchange

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers.

        Raises:
            Broken: they did not come.
        """
        while True:
            event = await self._next()
            if isinstance(event, h11.Response):
                return event.status_code, {name.decode(): value.decode() for name, value in event.headers}

    async def data(self) -> AsyncIterator[bytes]:
        """The body, as it comes.

        Raises:
            Broken: it broke off.
        """
        while not isinstance(event := await self._next(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                yield bytes(event.data)

    async def _next(self) -> h11.Event:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                if self._pause:
                    await asyncio.sleep(self._pause)
                self._http.receive_data(await self._reader.read(CHUNK))
        except (OSError, h11.RemoteProtocolError) as error:
            raise Broken(f"{type(error).__name__}: {error}") from error
        if isinstance(event, h11.ConnectionClosed):
            raise Broken("closed")
        assert isinstance(event, h11.Event)
        return event

    def close(self, *, reset: bool = False) -> None:
        """Hang up: in order, or by RST; nothing if the other side has done it already."""
        if reset:
            with suppress(OSError):
                self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            self._writer.transport.abort()
        else:
            self._writer.close()
