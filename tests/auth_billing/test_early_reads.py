"""Early reads of cached settings run in the background, one at a time for each key."""

from __future__ import annotations

import asyncio

from auth_billing.early_reads import EarlyReads
from auth_billing.errors import StoreUnavailable


class Reads:
    """Reads of a store that go on until `may_end` is set."""

    def __init__(self) -> None:
        self.begun = self.ended = 0
        self.may_end = asyncio.Event()

    async def read(self) -> None:
        self.begun += 1
        await self.may_end.wait()
        self.ended += 1


async def settle() -> None:
    """Let the tasks run until all of them wait."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_one_read_runs_for_each_key_and_the_next_one_after_its_end() -> None:
    early, reads = EarlyReads[str](), Reads()
    for key in ("a", "a", "b"):
        early.start(key, reads.read)
        await settle()
    assert (reads.begun, reads.ended) == (2, 0)
    reads.may_end.set()
    await settle()
    early.start("a", reads.read)
    await settle()
    assert (reads.begun, reads.ended) == (3, 3)


async def test_a_cancelled_read_does_not_end() -> None:
    early, reads = EarlyReads[str](), Reads()
    early.start("a", reads.read)
    await settle()
    early.cancel("a")
    early.cancel("b")
    reads.may_end.set()
    await settle()
    assert (reads.begun, reads.ended) == (1, 0)


async def test_an_unavailable_store_is_no_error() -> None:
    early, tried = EarlyReads[str](), []

    async def read() -> None:
        tried.append(asyncio.current_task())
        raise StoreUnavailable("down")

    early.start("a", read)
    await settle()
    (task,) = tried
    assert task is not None
    assert task.done()
    assert task.exception() is None
