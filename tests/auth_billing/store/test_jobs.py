"""Jobs in MongoDB and in memory: first charge final, checkpoints never decrease, durable once inserted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import (
    BillingStores,
    Charge,
    FinalUsage,
    JobState,
    SettlementSource,
)
from auth_billing.prices.pricing import Price
from auth_billing.store.connection import StoreConnection
from auth_billing.store.jobs import MongoJobStore
from router.messages import Outcome, ReportedUsage, Usage
from router.usage_arithmetic import JobUsage
from tests.auth_billing.conftest import SetAccount
from tests.auth_billing.money.test_usage_reports import job
from tests.auth_billing.workload import (
    HELD,
    HELD_FOR_PARTS,
    MAX_PARTS,
    ORGANISATION,
    PART_PRICES,
    hold,
    hold_request,
    principal,
)
from tests.child_process import StoreProcess
from tests.fakes.billing_stores import price_book

NOW = 1_700_000_000.0


USED = Usage(prompt_tokens=100, completion_tokens=7, cached_tokens=40)


@pytest.fixture
def billing(stores: BillingStores) -> Billing:
    return Billing(stores, price_book(PART_PRICES), clock=lambda: NOW)


async def test_a_second_charge_changes_nothing(
    stores: BillingStores, billing: Billing, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=5 * HELD)
    await hold(billing, principal(), [hold_request("job-1"), hold_request("job-2")])
    jobs = await stores.jobs.find(["job-1", "job-2"])
    first, second = (
        FinalUsage(USED, Outcome.FINISHED, source, NOW) for source in (SettlementSource.RECEIPT, SettlementSource.SWEPT)
    )
    assert await stores.jobs.charge([Charge(jobs["job-1"], 3, first)])
    assert not await stores.jobs.charge([Charge(job, 5, second) for job in jobs.values()])
    jobs = await stores.jobs.find(jobs)
    assert jobs["job-1"] == Charge(jobs["job-1"], 3, first).charged
    assert jobs["job-2"] == Charge(jobs["job-2"], 5, second).charged


async def test_a_checkpoint_never_decreases(stores: BillingStores, billing: Billing, set_account: SetAccount) -> None:
    await set_account(ORGANISATION, available=HELD)
    await hold(billing, principal(), [hold_request("job-1")])
    for tokens in (3, 9, 5):
        await billing.checkpoint(
            {"job-1": JobUsage(Usage(prompt_tokens=8, completion_tokens=tokens)), "job-2": JobUsage(USED)}
        )
    jobs = await stores.jobs.find(["job-1", "job-2"])
    assert [job.checkpoint for job in jobs.values()] == [JobUsage(Usage(prompt_tokens=8, completion_tokens=9))] * len(
        jobs
    )


@pytest.mark.store
async def test_kill_9_loses_no_inserted_job(own_store: Callable[[], StoreProcess]) -> None:
    """Without its document a receipt could not settle the job."""
    store = own_store()
    connection = StoreConnection(store.url, operation_ms=20_000)
    jobs = MongoJobStore(connection)
    accepted = [job(number, at=1.0, usage=Usage(prompt_tokens=1)) for number in range(10)]
    await jobs.insert(accepted[:-1])
    await jobs.insert(accepted[-1:])
    store.kill()
    await asyncio.to_thread(store.start)
    assert set(await jobs.find([each.id for each in accepted])) == {each.id for each in accepted}
    connection.close()


async def test_held_jobs_are_listed_by_deadline_and_by_gateway(stores: BillingStores) -> None:
    jobs = [replace(job(number, at=1.0, usage=USED), state=JobState.HELD, cost=None, final=None) for number in range(3)]
    late, soon, other = (
        replace(each, deadline=deadline, gateway=gateway)
        for each, deadline, gateway in zip(jobs, (9.0, 3.0, 6.0), ("gateway-1", "gateway-1", "gateway-2"), strict=True)
    )
    await stores.jobs.insert([late, soon, other])
    await stores.jobs.insert([replace(late, hold=0)])  # stored already
    assert list(await stores.jobs.held(9)) == [soon, other, late]
    assert list(await stores.jobs.held(1)) == [soon]
    assert list(await stores.jobs.held_by_gateways({"gateway-1"}, 9)) == [soon, late]
    assert set(await stores.jobs.gateways()) == {"gateway-1", "gateway-2"}


async def test_an_unfinished_settlement_is_listed_until_it_is_finished(stores: BillingStores) -> None:
    held = replace(job(1, at=1.0, usage=USED), state=JobState.HELD, cost=None, final=None)
    await stores.jobs.insert([held])
    final = FinalUsage(USED, Outcome.FINISHED, SettlementSource.RECEIPT, NOW)
    await stores.jobs.charge([Charge(held, 3, final)])
    assert list(await stores.jobs.settling_since(NOW, 9)) == []
    assert [each.cost for each in await stores.jobs.settling_since(NOW + 1, 9)] == [3]
    await stores.jobs.finish([held.id])
    assert list(await stores.jobs.settling_since(NOW + 1, 9)) == []
    assert (await stores.jobs.find([held.id]))[held.id].state is JobState.SETTLED


async def test_parts_are_stored_with_their_prices_and_costs(
    stores: BillingStores, billing: Billing, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=HELD + HELD_FOR_PARTS)
    await hold(billing, principal(), [hold_request("job-1", max_parts=MAX_PARTS)])
    job = (await stores.jobs.find(["job-1"]))["job-1"]
    assert job.hold == HELD + HELD_FOR_PARTS
    assert job.part_prices["painter"].units == {"512x512": 300}
    assert job.part_prices["tool.free"] == Price(0, 0, 0, 1)
    final = FinalUsage(
        Usage(prompt_tokens=1, units={"call": 3}),
        Outcome.FINISHED,
        SettlementSource.RECEIPT,
        NOW,
        parts=MAX_PARTS,
        part_costs=(200, 1_200, 14, 0),
        reported=ReportedUsage(attempt="a1", usage=Usage(prompt_tokens=1, units={"call": 4}), parts=MAX_PARTS),
    )
    assert await stores.jobs.charge([Charge(job, 1_416, final)])
    charged = (await stores.jobs.find(["job-1"]))["job-1"]
    assert (charged.cost, charged.final, charged.part_prices) == (1_416, final, job.part_prices)


async def test_a_checkpoint_has_the_parts_of_the_latest_step(
    stores: BillingStores, billing: Billing, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=9 * (HELD + HELD_FOR_PARTS))
    requests = [hold_request(job, max_parts=MAX_PARTS) for job in ("job-1", "job-2")]
    await hold(billing, principal(), requests)
    drawn = Usage(prompt_tokens=4, units={"512x512": 1})
    plain = JobUsage(Usage(prompt_tokens=8, completion_tokens=9))
    early, late = JobUsage(Usage(prompt_tokens=0), MAX_PARTS[:1]), JobUsage(drawn, MAX_PARTS)
    for checkpoint in (early, late, early, JobUsage(Usage(prompt_tokens=8, completion_tokens=5), MAX_PARTS[:1])):
        await billing.checkpoint({"job-1": checkpoint, "job-2": plain})
    await billing.checkpoint({"job-1": plain})
    jobs = await stores.jobs.find(["job-1", "job-2"])
    counts = Usage(prompt_tokens=8, completion_tokens=9, units={"512x512": 1})
    assert jobs["job-1"].checkpoint == JobUsage(counts, MAX_PARTS)
    assert jobs["job-2"].checkpoint == plain
