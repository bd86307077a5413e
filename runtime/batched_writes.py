"""Batches the writes to a socket: all that is written in one turn of the event loop is sent by one system call.

uvloop and asyncio send each write at once. A head and a body, or a number of acknowledgements, then cost both ends a
system call and the network stack each.
"""

from __future__ import annotations

import asyncio

MAX_BATCH_BYTES = 64 * 1024
"""Bytes of a batch from which it is sent without waiting for the end of the turn, so that flow control takes effect."""


class BatchedWrites:
    """Writes to a transport in batches; closing it sends the last batch before. Use it on the event loop only."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._batch: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Add `data` to the batch that is sent at the end of this turn of the event loop."""
        if not self._batch:
            self._loop.call_soon(self._send)
        self._batch.append(data)
        self._size += len(data)
        if self._size >= MAX_BATCH_BYTES:
            self._send()

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that are written and not passed to the socket yet."""
        return self._size + self._transport.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Return whether the transport is closing or closed."""
        return self._transport.is_closing()

    def resume_reading(self) -> None:
        """Read from the socket again, if reading was paused."""
        self._transport.resume_reading()

    def close(self) -> None:
        """Send the last batch, and close the transport when all is sent."""
        self._send()
        self._transport.close()

    def abort(self) -> None:
        """Close the transport at once; what is not sent is lost."""
        self._batch, self._size = [], 0
        self._transport.abort()

    def _send(self) -> None:
        batch, self._batch, self._size = self._batch, [], 0
        if batch and not self._transport.is_closing():
            self._transport.write(b"".join(batch))
