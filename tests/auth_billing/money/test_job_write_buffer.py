"""What is written behind a request's back: in order, together, and again when the store did not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from auth_billing.errors import RecordRefused, StoreUnavailable
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import Balance, JobRecord
from auth_billing.money.job_write_buffer import BATCH_SIZE, MAX_LAG
from router.messages import Usage
from tests.auth_billing.workload import HELD, ORGANISATION, hold, hold_request, principal
from tests.fakes.accounts import Absence, FakeClock
from tests.fakes.billing_stores import DictBalanceStore, DictJobStore, dict_billing_stores, price_book

PLENTY = 1_000 * HELD


class Writing:
    """A gateway's money with a lease, and the store that it is written to."""

    def __init__(self) -> None:
        self.absence = Absence()
        self.stores = dict_billing_stores(self.absence)
        self.clock = FakeClock(1_000.0)
        self.billing = Billing(self.stores, price_book(), monotonic=self.clock)
        assert isinstance(self.stores.balances, DictBalanceStore)
        assert isinstance(self.stores.jobs, DictJobStore)
        self.balances, self.jobs = self.stores.balances, self.stores.jobs

    async def begin(self) -> None:
        self.balances.balances[ORGANISATION] = Balance(ORGANISATION, PLENTY, 0)
        for job in ("job-1", "job-2"):
            await hold(self.billing, principal(), [hold_request(job)])

    async def reserve(self, job: str) -> None:
        await self.billing.reserve(principal(), [hold_request(job)])

    def held(self, job: str) -> bool:
        return job in self.balances.balances[ORGANISATION].held


@pytest.fixture
async def writing() -> Writing:
    writing = Writing()
    await writing.begin()
    return writing


async def test_requests_at_the_same_time_are_written_together(writing: Writing) -> None:
    before = writing.balances.balances[ORGANISATION].version
    await asyncio.gather(*(writing.reserve(f"job-{n}") for n in (3, 4, 5)))
    await writing.billing.flush_jobs(["job-5"])
    assert all(writing.held(f"job-{n}") and f"job-{n}" in writing.jobs.jobs for n in (3, 4, 5))
    assert writing.balances.balances[ORGANISATION].version <= before + 2  # their holds, and a larger lease


@pytest.mark.parametrize("answered", [1, 2], ids=["before the holds", "before the documents"])
async def test_what_the_store_did_not_take_is_written_next_time(writing: Writing, answered: int) -> None:
    await writing.reserve("job-3")
    writing.absence.failures_after = answered
    with pytest.raises(StoreUnavailable):
        await writing.billing.flush_jobs(["job-3"])
    await writing.billing.flush_jobs(["job-3"])
    assert writing.held("job-3")
    assert "job-3" in writing.jobs.jobs


async def test_while_the_store_is_away_leases_end(writing: Writing) -> None:
    writing.absence.away = True
    await writing.reserve("job-3")
    with pytest.raises(StoreUnavailable):
        await writing.billing.flush_jobs(["job-3"])
    with pytest.raises(StoreUnavailable):
        await writing.reserve("job-4")
    writing.absence.away = False
    await writing.billing.record_heartbeat("gateway-1")
    assert (writing.held("job-3"), writing.held("job-4")) == (True, False)
    balance = writing.balances.balances[ORGANISATION]
    assert sum(each.amount for each in balance.held.values()) + balance.available == PLENTY


async def test_who_is_slow_to_write_asks_the_account(writing: Writing) -> None:
    await writing.reserve("job-3")
    writing.clock.now += MAX_LAG + 0.1
    version = writing.balances.balances[ORGANISATION].version
    await writing.reserve("job-4")
    assert writing.balances.balances[ORGANISATION].version == version + 1


async def test_checkpoints_of_many_jobs_are_several_writes(writing: Writing, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, sizes = DictJobStore.checkpoint, []

    async def counted(store: DictJobStore, usage: Mapping[str, Usage]) -> None:
        sizes.append(len(usage))
        await checkpoint(store, usage)

    monkeypatch.setattr(DictJobStore, "checkpoint", counted)
    jobs = [f"many-{n}" for n in range(BATCH_SIZE + 6)]
    await asyncio.gather(*map(writing.reserve, jobs))
    await writing.billing.checkpoint(dict.fromkeys(jobs, Usage(prompt_tokens=1, completion_tokens=2)))
    assert sizes == [BATCH_SIZE, 6]
    assert all(writing.jobs.jobs[job].checkpoint for job in jobs)


async def test_a_job_that_the_store_refuses_holds_up_nobody(writing: Writing, monkeypatch: pytest.MonkeyPatch) -> None:
    insert = DictJobStore.insert

    async def picky(store: DictJobStore, jobs: Sequence[JobRecord]) -> None:
        if any(job.id == "job-3" for job in jobs):
            raise RecordRefused("too large")
        await insert(store, jobs)

    monkeypatch.setattr(DictJobStore, "insert", picky)
    await asyncio.gather(writing.reserve("job-3"), writing.reserve("job-4"))
    await writing.billing.flush_jobs(["job-3", "job-4"])
    assert ("job-3" in writing.jobs.jobs, "job-4" in writing.jobs.jobs) == (False, True)
