"""Holds that come while one is under way: together in one update, and each with its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from auth_billing.errors import StoreUnavailable
from auth_billing.money.billing_records import JobRecord
from auth_billing.money.hold_batcher import HoldBatcher
from auth_billing.money.holds import MAX_HOLD
from router.messages import ServiceClass
from tests.auth_billing.workload import ORGANISATION
from tests.fakes.billing_stores import flat_price


class SlowAccount:
    """An account that answers when it is told to, and remembers what it was asked for at once."""

    def __init__(self, available: int) -> None:
        self.available = available
        self.asked: list[list[str]] = []
        self.open = asyncio.Event()
        self.error: Exception | None = None

    async def hold(self, jobs: Sequence[JobRecord], budgets: Mapping[str, int]) -> bool:
        self.asked.append([job.id for job in jobs])
        await self.open.wait()
        if self.error is not None:
            raise self.error
        needed = sum(job.hold for job in jobs)
        if needed > self.available:
            return False
        self.available -= needed
        return True


async def begun(holds: HoldBatcher, *requests: list[JobRecord]) -> list[asyncio.Task[bool]]:
    """Ask for each, in this order; the first is under way then, the others wait."""
    tasks = []
    for jobs in requests:
        tasks.append(asyncio.create_task(holds.hold(jobs, {})))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    return tasks


def job(name: str, hold: int = 10, organisation: str = ORGANISATION) -> JobRecord:
    return JobRecord(
        id=name,
        organisation=organisation,
        project="proj_1",
        key="key1",
        user="",
        model="m",
        service_class=ServiceClass.DEFAULT,
        gateway="gateway-1",
        created=1.0,
        deadline=1e10,
        month="2026-11",
        price=flat_price().price("m", ServiceClass.DEFAULT),
        hold=hold,
    )


async def test_what_comes_meanwhile_is_asked_for_together() -> None:
    account = SlowAccount(available=100)
    holds = HoldBatcher(account)
    tasks = await begun(holds, [job("a")], [job("b"), job("c")], [job("d")])
    account.open.set()
    assert await asyncio.gather(*tasks) == [True, True, True]
    assert account.asked == [["a"], ["b", "c", "d"]]


async def test_if_not_all_can_have_it_those_that_can_do() -> None:
    account = SlowAccount(available=30)
    holds = HoldBatcher(account)
    tasks = await begun(holds, [job("a")], [job("b", 15)], [job("c", 15)], [job("d", 5)])
    account.open.set()
    assert await asyncio.gather(*tasks) == [True, True, False, True]


async def test_more_together_than_the_store_can_count_is_asked_for_one_by_one() -> None:
    account = SlowAccount(available=2 * MAX_HOLD)
    holds = HoldBatcher(account)
    tasks = await begun(holds, [job("a")], [job("b", MAX_HOLD - 10)], [job("c", MAX_HOLD - 10)])
    account.open.set()
    assert await asyncio.gather(*tasks) == [True, True, True]
    assert account.asked == [["a"], ["b"], ["c"]]


async def test_two_organisations_do_not_wait_for_each_other() -> None:
    account = SlowAccount(available=100)
    tasks = await begun(HoldBatcher(account), [job("a")], [job("b", organisation="org-2")])
    assert account.asked == [["a"], ["b"]]
    account.open.set()
    assert await asyncio.gather(*tasks) == [True, True]


async def test_who_leaves_does_not_take_the_others_along() -> None:
    account = SlowAccount(available=100)
    tasks = await begun(HoldBatcher(account), [job("a")], [job("b")])
    tasks[0].cancel()
    account.open.set()
    assert await tasks[1]
    assert account.available == 80  # whoever left knows that it may be held


async def test_all_hear_of_a_store_that_does_not_answer_and_the_next_ask_again() -> None:
    account = SlowAccount(available=100)
    holds = HoldBatcher(account)
    account.error = StoreUnavailable("away")
    tasks = await begun(holds, [job("a")], [job("b")], [job("c")])
    account.open.set()
    for task in tasks:
        with pytest.raises(StoreUnavailable):
            await task
    account.error = None
    assert await holds.hold([job("d")], {})
