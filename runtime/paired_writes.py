"""Sends two writes to a socket in one turn of the event loop, such as a head and its body, by one system call.

uvloop and asyncio send each write at once. Singly, a head and a body cost both ends a system call and the network stack
each. The second write of a turn is not held back as the first one is: the event loop may have other work before the
turn ends.
"""

from __future__ import annotations

import asyncio


class PairedWrites:
    """Writes to a transport in pairs; closing it sends the last write before. Use it on the event loop only."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._held = b""

    def write(self, data: bytes) -> None:
        """Send the write that is held back with `data`; if there is none, hold `data` back until the turn ends."""
        if self._held:
            self._held += data
            self._send()
        elif data:
            self._held = data
            self._loop.call_soon(self._send)

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that are written and not passed to the socket yet."""
        return len(self._held) + self._transport.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Return whether the transport is closing or closed."""
        return self._transport.is_closing()

    def resume_reading(self) -> None:
        """Read from the socket again, if reading was paused."""
        self._transport.resume_reading()

    def close(self) -> None:
        """Send what is held back, and close the transport when all is sent."""
        self._send()
        self._transport.close()

    def abort(self) -> None:
        """Close the transport at once; what is not sent is lost."""
        self._held = b""
        self._transport.abort()

    def _send(self) -> None:
        held, self._held = self._held, b""
        if held and not self._transport.is_closing():
            self._transport.write(held)
