"""The auditor: consistent stores pass at rest and under load, and each seeded difference is found."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from auth_billing.audit import auditor
from auth_billing.audit.audit_records import AuditReport, Check, JobsRead
from auth_billing.audit.auditor import Auditor
from auth_billing.metrics import BillingMetrics
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import BillingStores, SettlementSource, UsageStatement
from auth_billing.money.credit import Credit
from auth_billing.money.settler import Settler
from auth_billing.store.audit import MongoAuditStore
from auth_billing.store.billing_stores import mongo_billing_stores
from auth_billing.store.connection import StoreConnection
from auth_billing.store.credits import MongoCreditStore
from auth_billing.store.indexes import create_indexes
from auth_billing.store.usage import MongoUsageStore
from router.messages import Outcome, Usage
from tests.auth_billing.money.test_usage_records import record
from tests.auth_billing.workload import HELD, ORGANISATION, hold, hold_request, principal
from tests.fakes.billing_stores import price_book

pytestmark = pytest.mark.store

NOW = 1_700_000_000.0
LATER = NOW + 3600
USED = Usage(prompt_tokens=100, completion_tokens=7, cached_tokens=40)
COST = 60 * 2 + 40 * 1 + 7 * 10


@dataclass(frozen=True)
class Installation:
    connection: StoreConnection
    stores: BillingStores
    billing: Billing
    settler: Settler
    credit: Credit

    async def settle(self, *jobs: str, outcome: Outcome = Outcome.FINISHED) -> None:
        await self.settler.settle({job: UsageStatement(USED, outcome, SettlementSource.RECEIPT) for job in jobs})

    async def audit(self, now: float = LATER) -> AuditReport:
        return await Auditor(MongoAuditStore(self.connection), clock=lambda: now, pause=0.0).audit()


@pytest.fixture
async def installation(database_url: str) -> AsyncIterator[Installation]:
    """Two organisations with credit; settled, voided and refunded jobs, and a running one."""
    connection = StoreConnection(database_url, operation_ms=20_000)
    await create_indexes(connection)
    stores = mongo_billing_stores(connection)
    made = Installation(
        connection,
        stores,
        Billing(stores, price_book(), clock=lambda: NOW),
        Settler(stores, BillingMetrics(CollectorRegistry()), clock=lambda: NOW),
        Credit(MongoCreditStore(connection), stores.jobs, clock=lambda: NOW),
    )
    await made.credit.top_up(ORGANISATION, 9 * HELD, "payment-1")
    await made.credit.promo(ORGANISATION, HELD, "welcome")
    await made.credit.top_up("org-2", HELD, "payment-1")
    await hold(made.billing, principal(), [hold_request(job) for job in ("done", "failed", "void", "running")])
    await hold(made.billing, principal("org-2"), [hold_request("other")])
    for job in ("done", "failed", "other"):
        await MongoUsageStore(connection).add(record(job=job, usage=USED))
    await made.settle("done", "other")
    await made.settle("failed", outcome=Outcome.CANCELLED)
    await made.billing.void(["void"])
    await made.credit.refund(ORGANISATION, "done", 10, "sorry")
    yield made
    connection.close()


async def test_consistent_books_have_no_difference(installation: Installation) -> None:
    report = await installation.audit()
    assert (list(report.differences), report.accounts, report.jobs, report.rows) == ([], 2, 5, 7)


async def test_concurrent_settlements_are_not_reported(installation: Installation) -> None:
    """Jobs are held and settled during the audit."""
    await installation.credit.top_up(ORGANISATION, 10**6, "payment-2")
    billing = Billing(installation.stores, price_book(), clock=lambda: LATER)
    over = asyncio.Event()

    async def work_on(number: int) -> int:
        done = 0
        while not over.is_set():
            job = f"job-{number}-{done}"
            await hold(billing, principal(), [hold_request(job)])
            await MongoUsageStore(installation.connection).add(record(job=job, usage=USED))
            await installation.settle(job)
            done += 1
        return done

    working = [asyncio.create_task(work_on(number)) for number in range(3)]
    store = MongoAuditStore(installation.connection)
    try:
        for _ in range(3):
            report = await Auditor(store, clock=lambda: LATER, pause=0.5).audit()
            assert list(report.differences) == []
    finally:
        over.set()
    assert all(await asyncio.gather(*working))
    assert (await installation.audit()).differences == []


async def test_a_job_settled_between_two_reads_is_not_reported(installation: Installation) -> None:
    """A different job at each check."""
    jobs = [f"job-{number}" for number in range(6)]
    for job in jobs:
        await hold(installation.billing, principal(), [hold_request(job)])
        await MongoUsageStore(installation.connection).add(record(job=job, usage=USED))
    left = list(jobs)

    class Meanwhile(MongoAuditStore):
        async def read_jobs(self, jobs: Collection[str]) -> JobsRead:
            if left:
                await installation.settle(left.pop())
            return await super().read_jobs(jobs)

    meanwhile = Auditor(Meanwhile(installation.connection), clock=lambda: LATER, pause=0.0)
    assert (await meanwhile.audit()).differences == []
    assert len(left) <= 3  # it has looked again


HOLD = {"amount": 5, "month": "2023-11", "project": "p", "key": "k"}
LEASE = {**HOLD, "amount": 10, "gateway": "gateway-1", "at": LATER - 901}
ROW = {"organisation": ORGANISATION, "debit": f"customer:{ORGANISATION}", "credit": "revenue", "amount": 1, "at": 1.0}
SEEDED: dict[str, tuple[str, str, dict[str, Any], set[Check]]] = {
    # what was done: collection, document, change, what must be found
    "credit from nowhere": ("accounts", ORGANISATION, {"$inc": {"available": 1}}, {Check.ACCOUNT_ADDS_UP}),
    "a debt": (
        "accounts",
        ORGANISATION,
        {"$inc": {"available": -20 * HELD, "credited": -20 * HELD}},
        {Check.NOT_NEGATIVE, Check.CREDIT_IS_LEDGER},
    ),
    "a cent spent for nothing": (
        "accounts",
        ORGANISATION,
        {"$inc": {"available": -1, "spent": 1}},
        {Check.SPENT_IS_LEDGER},
    ),
    "a cost forgotten": ("accounts", ORGANISATION, {"$inc": {"available": 1, "spent": -1}}, {Check.SPENT_IS_LEDGER}),
    "a top-up taken in twice": (
        "accounts",
        ORGANISATION,
        {"$inc": {"available": HELD, "credited": HELD}},
        {Check.CREDIT_IS_LEDGER},
    ),
    "a top-up not taken in": (
        "accounts",
        ORGANISATION,
        {"$inc": {"credits": -1, "available": -10, "credited": -10}},
        {Check.CREDIT_TAKEN_IN},
    ),
    "a withdrawal without an entry": (
        "accounts",
        ORGANISATION,
        {"$inc": {"available": -10, "withdrawn": 10}},
        {Check.WITHDRAWN_IS_LEDGER},
    ),
    "a budget that forgets": (
        "accounts",
        ORGANISATION,
        {"$inc": {"used.2023-11.organisation": -3 * HELD}},
        {Check.BUDGETS_ADD_UP},
    ),
    "a budget that invents": (
        "accounts",
        ORGANISATION,
        {"$inc": {"used.2023-11.organisation": 1}},
        {Check.BUDGETS_ADD_UP},
    ),
    "a leaked hold": ("accounts", ORGANISATION, {"$set": {"held_map.ghost": HOLD}}, {Check.HOLD_HAS_JOB}),
    "a hold of a settled job": ("accounts", ORGANISATION, {"$set": {"held_map.done": HOLD}}, {Check.HOLD_HAS_JOB}),
    "a hold that shrank": (
        "accounts",
        ORGANISATION,
        {"$inc": {"held_map.running.amount": -1, "available": 1}},
        {Check.HOLD_IS_JOBS},
    ),
    "a lost hold": (
        "accounts",
        ORGANISATION,
        {"$unset": {"held_map.running": ""}, "$inc": {"available": HELD}},
        {Check.JOB_HAS_HOLD},
    ),
    "a lease that is not returned": (
        "accounts",
        ORGANISATION,
        {"$set": {"held_map.lease-1": LEASE}, "$inc": {"available": -10, "used.2023-11.organisation": 10}},
        {Check.LEASE_IN_TIME},
    ),
    "a damaged account": ("accounts", ORGANISATION, {"$unset": {"available": ""}}, {Check.READABLE}),
    "a job that never ends": ("jobs", "running", {"$set": {"deadline": LATER - 901}}, {Check.HOLD_IN_TIME}),
    "a job charged too much": (
        "jobs",
        "done",
        {"$inc": {"cost": 1}},
        {Check.COST_IS_PRICE, Check.LEDGER_IS_JOBS},
    ),
    "a price that changed": (
        "jobs",
        "done",
        {"$inc": {"price.output": 1}},
        {Check.COST_IS_PRICE},
    ),
    "tokens that changed": (
        "jobs",
        "done",
        {"$inc": {"final.completion_tokens": -1}},
        {Check.COST_IS_PRICE, Check.LEDGER_IS_JOBS},
    ),
    "a job that forgot its end": ("jobs", "done", {"$unset": {"final": "", "cost": ""}}, {Check.READABLE}),
    "a damaged job": ("jobs", "running", {"$unset": {"hold": ""}}, {Check.READABLE}),
    "a foreign job": (
        "jobs",
        "done",
        {"$set": {"organisation": "org-2"}},
        {Check.LEDGER_IS_JOBS, Check.ROW_HAS_JOB},
    ),
    "fewer tokens worked": ("usage", "done:attempt-0", {"$set": {"usage.completion_tokens": 6}}, {Check.WORKED}),
    "a shorter prompt worked": ("usage", "done:attempt-0", {"$set": {"usage.prompt_tokens": 99}}, {Check.WORKED}),
    "no usage record": ("usage", "done:attempt-0", {}, {Check.WORKED}),
    "a row that is gone": ("ledger", "done:settle:0", {}, {Check.JOB_IN_LEDGER, Check.SPENT_IS_LEDGER}),
    "a row that changed": (
        "ledger",
        "done:settle:0",
        {"$inc": {"amount": 1}},
        {Check.LEDGER_IS_JOBS, Check.SPENT_IS_LEDGER},
    ),
    "usage that changed": ("ledger", "done:settle:0", {"$inc": {"usage.prompt_tokens": 1}}, {Check.LEDGER_IS_JOBS}),
    "a row to itself": (
        "ledger",
        "done:settle:0",
        {"$set": {"credit": f"customer:{ORGANISATION}"}},
        {Check.ROW_BALANCES},
    ),
    "a row of less than nothing": (
        "ledger",
        f"{ORGANISATION}:promo:welcome",
        {"$set": {"amount": -1}},
        {Check.ROW_BALANCES, Check.CREDIT_IS_LEDGER},
    ),
    "a job charged before its end": (
        "ledger",
        "running:settle:0",
        {"$set": {**ROW, "kind": "settle", "job": "running"}},
        {Check.LEDGER_IS_JOBS, Check.SPENT_IS_LEDGER},
    ),
    "a job charged twice": (
        "ledger",
        "done:settle:1",
        {"$set": {**ROW, "kind": "settle", "job": "done"}},
        {Check.SETTLED_ONCE, Check.SPENT_IS_LEDGER},
    ),
    "a charge without a job": (
        "ledger",
        "ghost:settle:0",
        {"$set": {**ROW, "kind": "settle", "job": "ghost"}},
        {Check.ROW_HAS_JOB, Check.SPENT_IS_LEDGER},
    ),
}


async def test_each_check_finds_its_seeded_difference(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditor, "CHECK_ROUNDS", 1)  # no concurrent writes
    found = {}
    for name, (collection, id, change, _) in SEEDED.items():
        documents = installation.connection.unjournaled(collection)
        original = await documents.find_one({"_id": id})
        if change:
            await documents.update_one({"_id": id}, change, upsert=True)
        else:
            await documents.delete_one({"_id": id})
        found[name] = set((await installation.audit()).counts())
        if original is None:
            await documents.delete_one({"_id": id})
        else:
            await documents.replace_one({"_id": id}, original, upsert=True)
    assert {name: found[name] | expected for name, (*_, expected) in SEEDED.items()} == found
    assert set().union(*found.values()) == set(Check)
    assert (await installation.audit()).differences == []
