"""Settlement killed after each of its writes: another process finishes it, and accounts, jobs and ledger agree.

See docs/design/reliability-contract.md#F31.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from auth_billing.metrics import BillingMetrics
from auth_billing.money.settler import Settler
from auth_billing.store.connection import StoreConnection
from auth_billing.store.indexes import create_indexes
from auth_billing.store.usage import MongoUsageStore
from router.messages import Outcome
from router.timings import DEFAULT_TIMINGS
from tests.auth_billing.conftest import Buses
from tests.auth_billing.money.test_receipts import receipt
from tests.auth_billing.money.test_usage_records import running_settlement
from tests.auth_billing.races.crash import DIED, lease_and_die, reserve_and_die, settle_and_die
from tests.auth_billing.races.invariants import check_invariants, open_accounts
from tests.auth_billing.races.process_pool import OPERATION_MS, Racer, context
from tests.auth_billing.races.scenarios import cost, statement
from tests.auth_billing.workload import HELD, hold, hold_request, principal
from tests.child_process import StoreProcess

pytestmark = pytest.mark.store

STATEMENTS = {"job-1": statement(8), "job-2": statement(0, Outcome.FAILED), "job-3": statement(5, Outcome.CANCELLED)}
COSTS = {"job-1": cost(8), "job-2": cost(0), "job-3": cost(5)}


@pytest.fixture
async def racer(database_url: str) -> AsyncIterator[Racer]:
    connection = StoreConnection(database_url, operation_ms=OPERATION_MS)
    await create_indexes(connection)
    await open_accounts(connection, ["org-1", "org-2"], 500 * HELD)
    yield Racer.on(connection)
    connection.close()


def dies(target: Callable[..., None], *arguments: Any) -> bool:
    """Return whether a process that runs `target` dies before it is done."""
    process = context().Process(target=target, args=arguments)
    process.start()
    process.join(60)
    assert process.exitcode in (0, DIED)
    return process.exitcode == DIED


async def sweep(racer: Racer, seconds: float) -> None:
    """Run a sweeper for `seconds`, with a sweep every 10 s."""
    now = 0.0
    wall = time.time()
    sweeper = racer.sweeper(lambda: now, clock=lambda: wall + now)
    while now <= seconds:
        await sweeper.sweep()
        now += 10


@pytest.mark.parametrize("redelivered", [True, False], ids=["redelivered", "swept"])
@pytest.mark.parametrize("writes", [1, 2, 3, 4, 5])
async def test_a_settlement_killed_after_each_write(
    racer: Racer, database_url: str, writes: int, redelivered: bool
) -> None:
    await hold(racer.billing, principal("org-1"), [hold_request("job-1"), hold_request("job-2")])
    await hold(racer.billing, principal("org-2"), [hold_request("job-3")])
    assert dies(settle_and_die, database_url, STATEMENTS, writes)  # S4, S5 of each organisation, S6, S7
    if redelivered:
        await racer.settler.settle(STATEMENTS)
    else:
        await sweep(racer, 20)
    jobs = await check_invariants(racer.connection, 500 * HELD)
    assert {name: job["cost"] for name, job in jobs.items()} == COSTS


async def test_a_settlement_has_five_writes(racer: Racer, database_url: str) -> None:
    """The number that the parameters of the test above assume."""
    await hold(racer.billing, principal("org-1"), [hold_request("job-1"), hold_request("job-2")])
    await hold(racer.billing, principal("org-2"), [hold_request("job-3")])
    assert not dies(settle_and_die, database_url, STATEMENTS, 6)
    await check_invariants(racer.connection, 500 * HELD)


@pytest.mark.parametrize("writes", [1, 2])
async def test_a_gateway_killed_during_a_hold(racer: Racer, database_url: str, writes: int) -> None:
    assert dies(reserve_and_die, database_url, "org-1", ["job-1", "job-2"], writes)
    await sweep(racer, 30 + DEFAULT_TIMINGS.receipt_grace + 30)
    jobs = await check_invariants(racer.connection, 500 * HELD)
    assert {job["cost"] for job in jobs.values()} <= {0}


@pytest.mark.parametrize("writes", [5, 6, 7, 8])
async def test_a_gateway_killed_while_it_has_a_lease(racer: Racer, database_url: str, writes: int) -> None:
    """Writes: hold and document twice, then lease, hold from it, document, release."""
    jobs = ["job-1", "job-2", "job-3"]
    assert dies(lease_and_die, database_url, "org-1", jobs, writes)
    await sweep(racer, 30 + DEFAULT_TIMINGS.receipt_grace + 30)
    found = await check_invariants(racer.connection, 500 * HELD)
    assert {job["cost"] for job in found.values()} <= {0}
    assert len(found) == (3 if writes >= 7 else 2)


async def test_a_lease_has_eight_writes(racer: Racer, database_url: str) -> None:
    """The number that the parameters of the test above assume."""
    assert not dies(lease_and_die, database_url, "org-1", ["job-1", "job-2", "job-3"], 9)


async def test_a_store_killed_while_receipts_are_settled(own_store: Callable[[], StoreProcess], buses: Buses) -> None:
    """Acknowledged receipts are settled, the rest waits in the queue (docs/design/reliability-contract.md#F14)."""
    store = own_store()
    connection = StoreConnection(store.url, operation_ms=20_000)
    await create_indexes(connection)
    await open_accounts(connection, ["org-1"], 200 * HELD)
    racer = Racer.on(connection)
    jobs = [f"job-{number}" for number in range(120)]
    await hold(racer.billing, principal("org-1"), [hold_request(job) for job in jobs])
    await connection.durable("journal").insert_one({})  # journals all earlier writes too
    metrics = BillingMetrics(CollectorRegistry())
    settled = metrics.receipts.labels("settled")._value
    async with running_settlement(buses.billing, MongoUsageStore(connection), Settler(racer.stores, metrics), metrics):
        for job in jobs:
            await buses.others.publish_settlement(receipt(job))
            if job == jobs[60]:
                await asyncio.to_thread(store.kill)
        await asyncio.to_thread(store.start)
        async with asyncio.timeout(60):
            while settled.get() + metrics.receipts.labels("repeated")._value.get() < len(jobs):
                await asyncio.sleep(0.01)
    await check_invariants(connection, 200 * HELD)
    connection.close()
