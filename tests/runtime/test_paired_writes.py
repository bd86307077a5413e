"""Writes to a socket in one turn of the event loop are sent together, in order, before it is closed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.paired_writes import PairedWrites


class Transport:
    """A transport that records what is passed to the socket."""

    def __init__(self) -> None:
        self.sent: list[bytes | str] = []
        self.closing = False

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def get_write_buffer_size(self) -> int:
        return 5

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True
        self.sent.append("closed")

    def abort(self) -> None:
        self.closing = True
        self.sent.append("aborted")

    def resume_reading(self) -> None:
        self.sent.append("resumed")


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
async def writes(transport: Transport) -> PairedWrites:
    of_any: Any = transport
    return PairedWrites(of_any)


async def test_two_writes_of_a_turn_are_sent_together(transport: Transport, writes: PairedWrites) -> None:
    writes.write(b"head, ")
    assert (transport.sent, writes.get_write_buffer_size()) == ([], 11)
    writes.write(b"body")
    assert (transport.sent, writes.get_write_buffer_size()) == ([b"head, body"], 5)
    writes.write(b"")
    writes.write(b"end")
    assert transport.sent == [b"head, body"]
    await asyncio.sleep(0)
    assert transport.sent == [b"head, body", b"end"]


async def test_a_single_write_is_sent_at_the_end_of_its_turn(transport: Transport, writes: PairedWrites) -> None:
    for text in (b"one", b"two"):
        writes.write(text)
        await asyncio.sleep(0)
    assert transport.sent == [b"one", b"two"]


async def test_closing_sends_the_rest_and_aborting_drops_it(transport: Transport, writes: PairedWrites) -> None:
    writes.write(b"rest")
    writes.resume_reading()
    writes.close()
    assert writes.is_closing()
    writes.write(b"after the end")
    writes.abort()
    await asyncio.sleep(0)
    assert transport.sent == ["resumed", b"rest", "closed", "aborted"]


async def test_nothing_is_written_to_a_closed_connection(transport: Transport, writes: PairedWrites) -> None:
    writes.write(b"late")
    transport.closing = True
    await asyncio.sleep(0)
    assert transport.sent == []
