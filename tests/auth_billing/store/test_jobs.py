"""Jobs in MongoDB and in memory: first charge final, checkpoints never decrease, durable once inserted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import (
    BillingStores,
    Charge,
    FinalUsage,
    SettlementSource,
)
from auth_billing.store.connection import StoreConnection
from auth_billing.store.jobs import MongoJobStore
from infra.accounts.embedded_store import EmbeddedStore
from router.messages import Outcome, Usage
from tests.auth_billing.conftest import SetAccount
from tests.auth_billing.money.test_usage_reports import job
from tests.auth_billing.workload import HELD, ORGANISATION, hold, hold_request, principal
from tests.fakes.billing_stores import price_book

NOW = 1_700_000_000.0


USED = Usage(prompt_tokens=100, completion_tokens=7, cached_tokens=40)


@pytest.fixture
def billing(stores: BillingStores) -> Billing:
    return Billing(stores, price_book(), clock=lambda: NOW)


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
        await billing.checkpoint({"job-1": Usage(prompt_tokens=8, completion_tokens=tokens), "job-2": USED})
    jobs = await stores.jobs.find(["job-1", "job-2"])
    assert {job.checkpoint for job in jobs.values()} == {Usage(prompt_tokens=8, completion_tokens=9)}


@pytest.mark.store
async def test_kill_9_loses_no_inserted_job(own_store: Callable[[], EmbeddedStore]) -> None:
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
