"""The bytes under pika's connection: the event loop's own stream instead of pika's.

pika's stream asks the kernel whether it may write before each write, and reads in pieces of 4 KiB until nothing is
left: four system calls where one does. The loop's own writes at once and reads what is there.
Knows no AMQP.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

from pika.adapters.asyncio_connection import _AsyncioIOServicesAdapter


class StreamServices(_AsyncioIOServicesAdapter):  # type: ignore[misc]  # pika has no types
    """What pika asks of an event loop; its streams are the loop's own."""

    def create_streaming_connection(
        self,
        protocol_factory: Callable[[], Any],
        sock: socket.socket,
        on_done: Callable[[Any], None],
        ssl_context: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
    ) -> Any:
        """Give pika a stream over a connected socket: `on_done((transport, protocol))`, or `on_done(error)`."""

        async def link_up() -> tuple[asyncio.BaseTransport, Any]:
            transport, stream = await self._loop.create_connection(
                lambda: _Stream(protocol_factory()), sock=sock, ssl=ssl_context, server_hostname=server_hostname
            )
            return transport, stream.protocol

        return self._schedule_and_wrap_in_io_ref(link_up(), on_done)


class _Stream(asyncio.Protocol):
    """Passes on to pika what happens to the stream. It can't be asked to write less: `unsent_bytes` is watched."""

    def __init__(self, protocol: Any) -> None:
        self.protocol = protocol
        self.data_received = protocol.data_received  # type: ignore[method-assign]  # one call less for each read

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.protocol.connection_made(transport)

    def eof_received(self) -> bool:
        return bool(self.protocol.eof_received())

    def connection_lost(self, exc: Exception | None) -> None:
        self.protocol.connection_lost(exc)
