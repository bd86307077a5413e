"""A plain TCP load balancer: each connection goes to the next backend that accepts it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

CHUNK = 65536


class Balancer:
    """Forwards to `ports` of the loopback interface in turn; one that refuses a connection is passed over."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._turn = 0
        self._serving: set[asyncio.Task[None]] = set()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection to its end."""
        self._turn += 1
        turn = self._turn  # others take theirs meanwhile
        for number in range(len(self._ports)):
            port = self._ports[(turn + number) % len(self._ports)]
            with suppress(OSError):
                there = await asyncio.open_connection("127.0.0.1", port)
                await asyncio.gather(_pump(reader, there[1]), _pump(there[0], writer))
                return
        writer.close()


@asynccontextmanager
async def balancing(ports: Sequence[int]) -> AsyncIterator[int]:
    """The port of a balancer before `ports`."""
    server = await asyncio.start_server(Balancer(ports).take, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """All that comes, then the end of it; a reset on one side is the end on the other."""
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.close()
