"""Slots of concurrent work: limits of tenants and requesters, turns, and refusals."""

from __future__ import annotations

import asyncio

import pytest

from router.fair_slots import FairSlots, SlotRefused


class Work:
    """Pieces of work that run until they are told to end."""

    def __init__(self, slots: FairSlots) -> None:
        self._slots = slots
        self.running: list[str] = []
        self.ends = asyncio.Event()

    def start(self, tenant: str, requester: str) -> asyncio.Task[None]:
        async def run() -> None:
            async with self._slots.hold(tenant, requester):
                self.running.append(requester)
                await self.ends.wait()

        return asyncio.create_task(run())


async def test_a_requester_and_a_tenant_have_limits() -> None:
    work = Work(FairSlots(3, per_tenant=2, per_requester=1))
    tasks = [work.start("acme", each) for each in ("anna", "anna", "bob", "carol")] + [work.start("other", "dan")]
    await asyncio.sleep(0)
    assert work.running == ["anna", "bob", "dan"]
    work.ends.set()
    await asyncio.gather(*tasks)
    assert sorted(work.running) == ["anna", "anna", "bob", "carol", "dan"]


async def test_waiting_work_of_a_requester_is_refused() -> None:
    slots = FairSlots(1, per_tenant=1, per_requester=1)
    work = Work(slots)
    first, second, others = work.start("acme", "anna"), work.start("acme", "anna"), work.start("acme", "bob")
    await asyncio.sleep(0)
    slots.refuse_waiting("acme", "anna")
    with pytest.raises(SlotRefused):
        await second
    work.ends.set()
    await asyncio.gather(first, others)
    assert work.running == ["anna", "bob"]


async def test_cancelled_work_leaves_its_slot() -> None:
    work = Work(FairSlots(1, per_tenant=1, per_requester=1))
    running, waiting, last = (work.start("acme", "anna") for _ in range(3))
    await asyncio.sleep(0)
    waiting.cancel()
    running.cancel()
    work.ends.set()
    await last
    assert len(work.running) == 2
