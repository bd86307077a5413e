"""Owners of slots take turns, and a slot is never lost."""

from __future__ import annotations

import asyncio

from runtime.fair_slots import FairSlots


async def test_owners_take_turns() -> None:
    slots, order = FairSlots(1), list[str]()

    async def work(owner: str) -> None:
        async with slots.take(owner):
            order.append(owner)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(owner) for owner in ("many", "many", "many", "many", "few", "one", "few")))
    assert order == ["many", "many", "few", "one", "many", "few", "many"]


async def test_a_slot_of_a_cancelled_owner_goes_to_the_next() -> None:
    slots, order = FairSlots(1), list[str]()

    async def work(owner: str) -> None:
        async with slots.take(owner):
            order.append(owner)

    async with slots.take("first"):
        waiting, given, last = [asyncio.create_task(work(owner)) for owner in ("waiting", "given", "last")]
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
    given.cancel()  # its turn has come, but it has not begun
    await asyncio.wait({waiting, given, last})
    assert (waiting.cancelled(), given.cancelled(), order) == (True, True, ["last"])
    async with asyncio.timeout(5), slots.take("another"):
        order.append("another")
    assert order == ["last", "another"]
