"""Writes off the request path: holds before documents, batched, repeated when the store did not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from auth_billing.errors import RecordRefused, StoreUnavailable
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import Balance, JobRecord
from auth_billing.money.job_write_buffer import BATCH_SIZE, MAX_LAG
from router.messages import Usage
from router.usage_arithmetic import JobUsage
from tests.auth_billing.workload import HELD, ORGANISATION, hold, hold_request, principal
from tests.fakes.accounts import Absence, FakeClock
from tests.fakes.billing_stores import DictBalanceStore, DictJobStore, dict_billing_stores, price_book

CREDIT = 1_000 * HELD


class LeasedGateway:
    """The billing of a gateway that has a lease, and the stores that it writes to."""

    def __init__(self) -> None:
        self.absence = Absence()
        self.stores = dict_billing_stores(self.absence)
        self.clock = FakeClock(1_000.0)
        self.billing = Billing(self.stores, price_book(), monotonic=self.clock)
        assert isinstance(self.stores.balances, DictBalanceStore)
        assert isinstance(self.stores.jobs, DictJobStore)
        self.balances, self.jobs = self.stores.balances, self.stores.jobs

    async def begin(self) -> None:
        self.balances.balances[ORGANISATION] = Balance(ORGANISATION, CREDIT, 0)
        for job in ("job-1", "job-2"):
            await hold(self.billing, principal(), [hold_request(job)])

    async def reserve(self, job: str) -> None:
        await self.billing.reserve(principal(), [hold_request(job)])

    def held(self, job: str) -> bool:
        return job in self.balances.balances[ORGANISATION].held


@pytest.fixture
async def gateway() -> LeasedGateway:
    gateway = LeasedGateway()
    await gateway.begin()
    return gateway


async def test_concurrent_requests_are_written_together(gateway: LeasedGateway) -> None:
    before = gateway.balances.balances[ORGANISATION].version
    await asyncio.gather(*(gateway.reserve(f"job-{n}") for n in (3, 4, 5)))
    await gateway.billing.flush_jobs(["job-5"])
    assert all(gateway.held(f"job-{n}") and f"job-{n}" in gateway.jobs.jobs for n in (3, 4, 5))
    assert gateway.balances.balances[ORGANISATION].version <= before + 2  # their holds, and a larger lease


@pytest.mark.parametrize("answered", [1, 2], ids=["before the holds", "before the documents"])
async def test_failed_writes_are_repeated_by_the_next_flush(gateway: LeasedGateway, answered: int) -> None:
    await gateway.reserve("job-3")
    gateway.absence.failures_after = answered
    with pytest.raises(StoreUnavailable):
        await gateway.billing.flush_jobs(["job-3"])
    await gateway.billing.flush_jobs(["job-3"])
    assert gateway.held("job-3")
    assert "job-3" in gateway.jobs.jobs


async def test_leases_are_suspended_while_the_store_is_unavailable(gateway: LeasedGateway) -> None:
    gateway.absence.away = True
    await gateway.reserve("job-3")
    with pytest.raises(StoreUnavailable):
        await gateway.billing.flush_jobs(["job-3"])
    with pytest.raises(StoreUnavailable):
        await gateway.reserve("job-4")
    gateway.absence.away = False
    await gateway.billing.record_heartbeat("gateway-1")
    assert (gateway.held("job-3"), gateway.held("job-4")) == (True, False)
    balance = gateway.balances.balances[ORGANISATION]
    assert sum(each.amount for each in balance.held.values()) + balance.available == CREDIT


async def test_a_buffer_that_lags_holds_from_the_account(gateway: LeasedGateway) -> None:
    await gateway.reserve("job-3")
    gateway.clock.now += MAX_LAG + 0.1
    version = gateway.balances.balances[ORGANISATION].version
    await gateway.reserve("job-4")
    assert gateway.balances.balances[ORGANISATION].version == version + 1


async def test_checkpoints_of_many_jobs_are_written_in_batches(
    gateway: LeasedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, sizes = DictJobStore.checkpoint, []

    async def counted(store: DictJobStore, usage: Mapping[str, JobUsage]) -> None:
        sizes.append(len(usage))
        await checkpoint(store, usage)

    monkeypatch.setattr(DictJobStore, "checkpoint", counted)
    jobs = [f"many-{n}" for n in range(BATCH_SIZE + 6)]
    await asyncio.gather(*map(gateway.reserve, jobs))
    await gateway.billing.checkpoint(dict.fromkeys(jobs, JobUsage(Usage(prompt_tokens=1, completion_tokens=2))))
    assert sizes == [BATCH_SIZE, 6]
    assert all(gateway.jobs.jobs[job].checkpoint for job in jobs)


async def test_a_refused_job_does_not_block_other_jobs(gateway: LeasedGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    insert = DictJobStore.insert

    async def picky(store: DictJobStore, jobs: Sequence[JobRecord]) -> None:
        if any(job.id == "job-3" for job in jobs):
            raise RecordRefused("too large")
        await insert(store, jobs)

    monkeypatch.setattr(DictJobStore, "insert", picky)
    await asyncio.gather(gateway.reserve("job-3"), gateway.reserve("job-4"))
    await gateway.billing.flush_jobs(["job-3", "job-4"])
    assert ("job-3" in gateway.jobs.jobs, "job-4" in gateway.jobs.jobs) == (False, True)
