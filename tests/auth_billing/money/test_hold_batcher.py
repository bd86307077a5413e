"""Holds requested during an update of the account share the next update; each request gets its own result."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from auth_billing.errors import StoreUnavailable
from auth_billing.money.billing_records import BalanceStore, JobRecord
from auth_billing.money.hold_batcher import HoldBatcher
from auth_billing.money.holds import MAX_HOLD
from router.messages import ServiceClass
from tests.auth_billing.workload import ORGANISATION
from tests.fakes.billing_stores import flat_price


class SlowAccount:
    """An account that answers once `open` is set, and records the jobs of each update."""

    def __init__(self, available: int) -> None:
        self.available = available
        self.updates: list[list[str]] = []
        self.open = asyncio.Event()
        self.error: Exception | None = None

    async def hold(self, jobs: Sequence[JobRecord], budgets: Mapping[str, int]) -> bool:
        self.updates.append([job.id for job in jobs])
        await self.open.wait()
        if self.error is not None:
            raise self.error
        needed = sum(job.hold for job in jobs)
        if needed > self.available:
            return False
        self.available -= needed
        return True


async def started(holds: HoldBatcher, *requests: list[JobRecord]) -> list[asyncio.Task[bool]]:
    """Request the holds in this order; the first update then runs, the other requests wait."""
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


async def test_requests_during_an_update_share_the_next_update() -> None:
    account = SlowAccount(available=100)
    holds = HoldBatcher(cast(BalanceStore, account))
    tasks = await started(holds, [job("a")], [job("b"), job("c")], [job("d")])
    account.open.set()
    assert await asyncio.gather(*tasks) == [True, True, True]
    assert account.updates == [["a"], ["b", "c", "d"]]


async def test_a_refused_batch_is_held_one_by_one() -> None:
    account = SlowAccount(available=30)
    holds = HoldBatcher(cast(BalanceStore, account))
    tasks = await started(holds, [job("a")], [job("b", 15)], [job("c", 15)], [job("d", 5)])
    account.open.set()
    assert await asyncio.gather(*tasks) == [True, True, False, True]


async def test_a_batch_above_the_maximum_hold_is_held_one_by_one() -> None:
    account = SlowAccount(available=2 * MAX_HOLD)
    holds = HoldBatcher(cast(BalanceStore, account))
    tasks = await started(holds, [job("a")], [job("b", MAX_HOLD - 10)], [job("c", MAX_HOLD - 10)])
    account.open.set()
    assert await asyncio.gather(*tasks) == [True, True, True]
    assert account.updates == [["a"], ["b"], ["c"]]


async def test_organisations_do_not_wait_for_each_other() -> None:
    account = SlowAccount(available=100)
    tasks = await started(HoldBatcher(cast(BalanceStore, account)), [job("a")], [job("b", organisation="org-2")])
    assert account.updates == [["a"], ["b"]]
    account.open.set()
    assert await asyncio.gather(*tasks) == [True, True]


async def test_a_cancelled_request_does_not_cancel_its_batch() -> None:
    account = SlowAccount(available=100)
    tasks = await started(HoldBatcher(cast(BalanceStore, account)), [job("a")], [job("b")])
    tasks[0].cancel()
    account.open.set()
    assert await tasks[1]
    assert account.available == 80  # the cancelled request's outcome is unknown to its caller


async def test_a_store_error_reaches_every_request_and_later_requests_retry() -> None:
    account = SlowAccount(available=100)
    holds = HoldBatcher(cast(BalanceStore, account))
    account.error = StoreUnavailable("away")
    tasks = await started(holds, [job("a")], [job("b")], [job("c")])
    account.open.set()
    for task in tasks:
        with pytest.raises(StoreUnavailable):
            await task
    account.error = None
    assert await holds.hold([job("d")], {})
