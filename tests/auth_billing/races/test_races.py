"""Races of four processes on the real store, after which accounts, jobs and ledger agree (docs/design/money.md#races).

Twenty rounds of each; `make races` runs a thousand.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from auth_billing.errors import AccountClosed
from auth_billing.store.api_keys import MongoApiKeyStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.indexes import create_indexes
from router.messages import Outcome
from tests.auth_billing.races import scenarios
from tests.auth_billing.races.invariants import check_invariants, open_accounts
from tests.auth_billing.races.key_scenarios import REVOKE_AND_USE, record_of
from tests.auth_billing.races.process_pool import OPERATION_MS, PROCESSES, ProcessPool, Race, Racer
from tests.auth_billing.races.scenarios import cost
from tests.auth_billing.workload import HELD, hold, hold_request, principal

pytestmark = [pytest.mark.store, pytest.mark.timeout(1800)]

ITERATIONS = int(os.environ.get("HEADRACE_RACE_ITERATIONS", "20"))
ROUND = min(ITERATIONS, 25)
NAMES = [f"org-{number}" for number in range(ITERATIONS)]
LEASED = NAMES if ITERATIONS > 20 else NAMES[:5]
"""Fewer names for races with leases, which have many jobs each."""
LEASED_ROUNDS = [LEASED[start : start + ROUND] for start in range(0, len(LEASED), ROUND)]
ROUNDS = [NAMES[start : start + ROUND] for start in range(0, ITERATIONS, ROUND)]


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    pool = ProcessPool()
    yield pool
    pool.close()


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[StoreConnection]:
    connection = StoreConnection(database_url, operation_ms=OPERATION_MS)
    await create_indexes(connection)
    yield connection
    connection.close()


@pytest.fixture
async def racer(connection: StoreConnection) -> Racer:
    """A process of the test's own, which settles the jobs that a race leaves open."""
    return Racer.on(connection)


def granted(pool: ProcessPool, race: Race, url: str, processes: int = PROCESSES) -> dict[str, list[str]]:
    """Run a race; return the jobs whose hold was granted, by name."""
    jobs: dict[str, list[str]] = {name: [] for name in NAMES}
    for number, outcomes_by_process in enumerate(pool.run(race, url, ROUNDS)[:processes]):
        for names, outcomes in zip(ROUNDS, outcomes_by_process, strict=True):
            for name, got in zip(names, outcomes, strict=bool(outcomes)):
                if got:
                    jobs[name].append(f"{name}-{number}")
    return jobs


@pytest.mark.parametrize("budget", [None, "key:key1"])
async def test_the_last_cent(
    pool: ProcessPool, connection: StoreConnection, racer: Racer, database_url: str, budget: str | None
) -> None:
    """Of concurrent holds one gets the last credit, or the last of `budget` (docs/design/hostile-input.md#H52)."""
    if budget is None:
        await open_accounts(connection, NAMES, HELD + HELD // 2)
    else:
        await open_accounts(connection, NAMES, 100 * HELD, budgets={budget: HELD + HELD // 2})
    jobs = granted(pool, scenarios.RESERVE, database_url)
    assert {len(each) for each in jobs.values()} == {1}
    await racer.settle({each[0]: scenarios.statement(80) for each in jobs.values()})
    settled = await check_invariants(connection, HELD + HELD // 2 if budget is None else 100 * HELD)
    assert sorted(settled) == sorted(each[0] for each in jobs.values())


def leased(pool: ProcessPool, scenario: Race, database_url: str) -> list[str]:
    """Run a scenario in which gateways lease credit; return the jobs that got holds."""
    outcomes_by_process = pool.run(scenario, database_url, LEASED_ROUNDS)
    return [job for process in outcomes_by_process for rounds in process for jobs in rounds for job in jobs]


async def test_leases_and_the_last_cent(
    pool: ProcessPool, connection: StoreConnection, racer: Racer, database_url: str
) -> None:
    """Holds never exceed the credit, and leases of other gateways cost at most their share of it."""
    await open_accounts(connection, LEASED, 400 * HELD)
    got = leased(pool, scenarios.LEASE, database_url)
    assert sum(job.endswith("large") for job in got) == 2 * len(LEASED)
    assert len(got) == 18 * len(LEASED)
    await racer.settle(dict.fromkeys(got, scenarios.statement(3)))
    assert sorted(await check_invariants(connection, 400 * HELD)) == sorted(got)


async def test_leases_of_an_account_that_is_closed_and_swept(
    pool: ProcessPool, connection: StoreConnection, racer: Racer, database_url: str
) -> None:
    await open_accounts(connection, LEASED, 400 * HELD)
    got = leased(pool, scenarios.LEASE_AND_CLOSE, database_url)
    await racer.settle(dict.fromkeys(got, scenarios.statement(3)))
    jobs = await check_invariants(connection, 400 * HELD)
    assert sorted(jobs) == sorted(got)
    assert {job["cost"] for job in jobs.values()} <= {0, cost(3)}


@pytest.mark.parametrize(
    ("race", "costs"),
    [
        pytest.param(scenarios.SETTLE_OR_VOID, {0, cost(8)}, id="settle against void"),
        pytest.param(
            scenarios.SETTLE_DIFFERENTLY, {cost(5), cost(8)}, id="settle against settle, cancel against final"
        ),
        pytest.param(scenarios.SWEEP, {0, cost(2), cost(3), cost(8)}, id="sweeper against live gateway"),
        pytest.param(scenarios.DISCONNECT, {0, cost(7), cost(8)}, id="receipt at the moment of disconnect"),
    ],
)
async def test_a_job_is_settled_once(
    pool: ProcessPool, connection: StoreConnection, database_url: str, race: Race, costs: set[int]
) -> None:
    await open_accounts(connection, NAMES, 2 * HELD)
    pool.run(race, database_url, ROUNDS)
    jobs = await check_invariants(connection, 2 * HELD)
    assert len(jobs) == ITERATIONS
    assert {job["cost"] for job in jobs.values()} <= costs
    for job in jobs.values():
        cancelled = job["final"]["outcome"] == Outcome.CANCELLED.value
        assert job["cost"] == 0 or cancelled == (job["cost"] != cost(8)) or job["final"]["source"] == "swept"


async def test_an_account_is_closed_while_a_job_runs(
    pool: ProcessPool, connection: StoreConnection, racer: Racer, database_url: str
) -> None:
    await open_accounts(connection, NAMES, 2 * HELD)
    outcomes_by_process = pool.run(scenarios.CLOSE, database_url, ROUNDS)
    got = [each for outcomes in outcomes_by_process[1] for each in outcomes]
    late = [f"{name}-1" for name, held in zip(NAMES, got, strict=True) if held]
    await racer.settle(dict.fromkeys(late, scenarios.statement(3)))
    jobs = await check_invariants(connection, 2 * HELD)
    assert len(jobs) == ITERATIONS + len(late)
    with pytest.raises(AccountClosed):
        await hold(racer.billing, principal(NAMES[0]), [hold_request("job")])


async def test_a_new_organisation_is_created_once(
    pool: ProcessPool, connection: StoreConnection, racer: Racer, database_url: str
) -> None:
    """One account, one credited payment, and at most one job that it pays for."""
    jobs = [job for each in granted(pool, scenarios.CREATE, database_url, 2).values() for job in each]
    assert len({job.rpartition("-")[0] for job in jobs}) == len(jobs)
    await racer.settle(dict.fromkeys(jobs, scenarios.statement(3)))
    await check_invariants(connection, 0)
    accounts = [each async for each in connection.durable("accounts").find()]
    assert sorted(each["_id"] for each in accounts) == sorted(NAMES)
    assert {each["available"] + each["spent"] for each in accounts} == {HELD}


async def test_prices_are_edited_while_jobs_are_held(
    pool: ProcessPool, connection: StoreConnection, racer: Racer, database_url: str
) -> None:
    await open_accounts(connection, NAMES, 10**9)
    jobs = [job for each in granted(pool, scenarios.EDIT_PRICES, database_url, 2).values() for job in each]
    await racer.settle(dict.fromkeys(jobs, scenarios.statement(9)))
    versions = {each["_id"]: each["rates"][0] async for each in connection.durable("prices").find()}
    assert len(versions) > 1
    for job in (await check_invariants(connection, 10**9)).values():
        price, rate = job["price"], versions[job["price"]["version"]]
        assert {name: price[name] for name in ("input", "output")} == {name: rate[name] for name in ("input", "output")}
        assert job["hold"] == 100 * price["input"] + 80 * price["output"]
        assert job["cost"] == 100 * price["input"] + 9 * price["output"]


async def test_a_job_is_refunded_while_it_is_settled(
    pool: ProcessPool, connection: StoreConnection, database_url: str
) -> None:
    await open_accounts(connection, NAMES, 2 * HELD)
    pool.run(scenarios.REFUND, database_url, ROUNDS)
    jobs = await check_invariants(connection, 2 * HELD)
    back: dict[str, int] = {}
    async for row in connection.durable("ledger").find({"kind": "refund"}):
        back[row["job"]] = back.get(row["job"], 0) + row["amount"]
    assert all(amount <= jobs[job]["cost"] for job, amount in back.items())


async def test_a_key_is_revoked_while_all_processes_use_it(
    pool: ProcessPool, connection: StoreConnection, database_url: str
) -> None:
    keys = MongoApiKeyStore(connection)
    for name in NAMES:
        await keys.add(record_of(name))
    outcomes_by_process = pool.run(REVOKE_AND_USE, database_url, ROUNDS)
    assert [all(refused) for process in outcomes_by_process for refused in process] == [True] * len(ROUNDS) * PROCESSES
