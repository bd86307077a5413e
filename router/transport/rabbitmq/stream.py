"""Socket I/O of pika's connections through asyncio's stream transports instead of pika's own.

pika's stream polls the socket before each write and reads in pieces of 4 KiB until it is empty: four system calls
instead of one. asyncio's transport writes at once and reads what is available.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

from pika.adapters.asyncio_connection import _AsyncioIOServicesAdapter


class StreamServices(_AsyncioIOServicesAdapter):  # type: ignore[misc]  # pika has no types
    """pika's event loop adapter with asyncio's own stream transports."""

    def create_streaming_connection(
        self,
        protocol_factory: Callable[[], Any],
        sock: socket.socket,
        on_done: Callable[[Any], None],
        ssl_context: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
    ) -> Any:
        """Create a stream over a connected socket for pika.

        Call `on_done((transport, protocol))` or `on_done(error)`.
        """

        async def link_up() -> tuple[asyncio.BaseTransport, Any]:
            transport, stream = await self._loop.create_connection(
                lambda: _Stream(protocol_factory()), sock=sock, ssl=ssl_context, server_hostname=server_hostname
            )
            return transport, stream.protocol

        return self._schedule_and_wrap_in_io_ref(link_up(), on_done)


class _Stream(asyncio.Protocol):
    """Forwards stream events to pika. There is no flow control here: callers watch `unsent_bytes`."""

    def __init__(self, protocol: Any) -> None:
        self.protocol = protocol
        self.data_received = protocol.data_received  # type: ignore[method-assign]  # saves a call per read

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.protocol.connection_made(transport)

    def eof_received(self) -> bool:
        return bool(self.protocol.eof_received())

    def connection_lost(self, exc: Exception | None) -> None:
        self.protocol.connection_lost(exc)
