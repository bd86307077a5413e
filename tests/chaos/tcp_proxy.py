"""A TCP proxy on the loopback interface that can lose its network, controlled by a test.

A black hole holds bytes back instead of dropping them: TCP's retransmission has the same effect when a partition
heals.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from contextlib import suppress
from enum import StrEnum

CHUNK = 65536
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""`SO_LINGER` of no seconds: closing sends RST."""


class Mode(StrEnum):
    """What the wire does."""

    PASS = "pass"
    DROP = "drop"
    """A black hole, both ways: nothing arrives, nothing is refused."""
    DELAY = "delay"
    """All that is sent arrives `delay` seconds later."""
    RESET = "reset"
    """Open connections are reset, new ones at once."""


class TcpProxy:
    """Forwards connections to a port of the loopback interface; with `tls`, clients connect by TLS."""

    def __init__(self, target: int, *, tls: ssl.SSLContext | None = None) -> None:
        self._target = target
        self._tls = tls
        self._mode = Mode.PASS
        self._delay = 0.0
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def mode(self) -> Mode:
        return self._mode

    @property
    def connections(self) -> int:
        """Ends of connections that are open, two of each."""
        return len(self._writers)

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._reset_all()

    def set(self, mode: Mode, *, delay: float = 0.0) -> None:
        """Behave so from now on; `delay` in seconds."""
        self._mode, self._delay = mode, delay
        self._open.clear() if mode is Mode.DROP else self._open.set()
        if mode is Mode.RESET:
            self._reset_all()

    def _reset_all(self) -> None:
        for writer in list(self._writers):
            _reset(writer)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._forward(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode is Mode.RESET:
            _reset(writer)
            return
        self._writers.add(writer)
        try:
            await self._open.wait()
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:  # no listener: the client sees the same as without the proxy
            self._forget(writer)
            return
        except asyncio.CancelledError:
            self._forget(writer)
            raise
        self._writers.add(there_writer)
        try:
            async with asyncio.TaskGroup() as both_ways:
                both_ways.create_task(self._pump(reader, there_writer))
                both_ways.create_task(self._pump(there_reader, writer))
        except* OSError:
            pass  # one side has gone: so does the other, below
        finally:
            self._forget(writer)
            self._forget(there_writer)

    def _forget(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        _reset(writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one direction to its end, and then say that it has ended."""
        while data := await reader.read(CHUNK):
            if self._delay:
                await asyncio.sleep(self._delay)
            await self._open.wait()
            writer.write(data)
            await writer.drain()
        await self._open.wait()
        if writer.can_write_eof():
            writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    if (connected := writer.get_extra_info("socket")) is not None:  # a TLS connection that has ended has none
        with suppress(OSError):
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    writer.transport.abort()
