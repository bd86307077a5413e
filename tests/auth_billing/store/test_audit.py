"""Reads for the audit: in pages, and malformed documents are reported instead of raised."""

from __future__ import annotations

import pytest

from auth_billing.store.audit import MongoAuditStore
from auth_billing.store.connection import StoreConnection
from router.messages import Usage
from router.usage_arithmetic import JobUsage

pytestmark = pytest.mark.store


async def test_ids_are_read_in_pages_in_order(connection: StoreConnection) -> None:
    await connection.durable("accounts").insert_many([{"_id": id} for id in ("c", "a", "b")])
    audit = MongoAuditStore(connection)
    assert await audit.accounts("", 2) == ["a", "b"]
    assert await audit.accounts("b", 2) == ["c"]
    assert await audit.job_ids("", 2) == []


async def test_malformed_documents_are_reported_with_a_reason(connection: StoreConnection) -> None:
    await connection.durable("accounts").insert_one({"_id": "org-1", "available": 1})
    await connection.durable("jobs").insert_one({"_id": "job-1", "state": "lost"})
    await connection.durable("ledger").insert_one({"_id": "row-1", "amount": "much", "usage": 3})
    await connection.durable("usage").insert_many(
        [
            {"_id": "job-1:a", "job": "job-1", "attempt": "a", "usage": {"prompt_tokens": 4}},
            {"_id": "job-1:b", "job": "job-1", "usage": {"tokens": 4}},
        ]
    )
    audit = MongoAuditStore(connection)
    assert await audit.balance("org-2") is None
    assert isinstance(await audit.balance("org-1"), str)
    read = await audit.read_jobs(["job-1", "job-2"])
    assert (dict(read.jobs), set(read.unreadable)) == ({}, {"job-1"})
    (row,) = await audit.rows("", 5)
    assert (row.amount, row.usage, row.kind) == ("much", None, None)
    assert await audit.worked(["job-1"]) == {"job-1": {"a": JobUsage(Usage(prompt_tokens=4))}}


async def test_sums_cover_credit_up_to_a_number_and_all_settlements(connection: StoreConnection) -> None:
    rows = [
        {"_id": "1", "organisation": "org-1", "kind": "topup", "amount": 100, "number": 1, "at": 1.0},
        {"_id": "2", "organisation": "org-1", "kind": "promo", "amount": 50, "number": 2, "at": 2.0},
        {"_id": "3", "organisation": "org-1", "kind": "settle", "amount": 7, "at": 3.0},
        {"_id": "4", "organisation": "org-2", "kind": "settle", "amount": 9, "at": 3.0},
        {"_id": "5", "organisation": "org-1", "kind": "withdrawal", "amount": 8, "withdrawal": 1, "at": 3.0},
    ]
    await connection.durable("ledger").insert_many(rows)
    audit = MongoAuditStore(connection)
    assert list(vars(await audit.sums("org-1", 1)).values()) == [7, 1, 100, 2.0, 8]
    assert list(vars(await audit.sums("org-1", 2)).values()) == [7, 2, 150, None, 8]
    assert list(vars(await audit.sums("org-3", 0)).values()) == [0, 0, 0, None, 0]
