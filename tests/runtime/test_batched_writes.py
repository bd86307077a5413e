"""Writes to a socket in one turn of the event loop are sent together, in order, before it is closed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.batched_writes import MAX_BATCH_BYTES, BatchedWrites


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
async def writes(transport: Transport) -> BatchedWrites:
    of_any: Any = transport
    return BatchedWrites(of_any)


async def test_the_writes_of_a_turn_are_sent_together(transport: Transport, writes: BatchedWrites) -> None:
    writes.write(b"head, ")
    writes.write(b"body")
    assert (transport.sent, writes.get_write_buffer_size()) == ([], 15)
    await asyncio.sleep(0)
    writes.write(b"end")
    await asyncio.sleep(0)
    assert (transport.sent, writes.get_write_buffer_size()) == ([b"head, body", b"end"], 5)


async def test_a_large_batch_is_sent_at_once(transport: Transport, writes: BatchedWrites) -> None:
    writes.write(b"a")
    writes.write(b"b" * MAX_BATCH_BYTES)
    assert transport.sent == [b"a" + b"b" * MAX_BATCH_BYTES]
    await asyncio.sleep(0)
    assert len(transport.sent) == 1


async def test_closing_sends_the_rest_and_aborting_drops_it(transport: Transport, writes: BatchedWrites) -> None:
    writes.write(b"rest")
    writes.resume_reading()
    writes.close()
    assert writes.is_closing()
    writes.write(b"after the end")
    writes.abort()
    await asyncio.sleep(0)
    assert transport.sent == ["resumed", b"rest", "closed", "aborted"]


async def test_nothing_is_written_to_a_closed_connection(transport: Transport, writes: BatchedWrites) -> None:
    writes.write(b"late")
    transport.closing = True
    await asyncio.sleep(0)
    assert transport.sent == []
