"""The ledger in MongoDB: an entry is stored once and never changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auth_billing.money.billing_records import LedgerEntry
from auth_billing.store.connection import StoreConnection
from auth_billing.store.ledger import MongoLedgerStore
from router.messages import Usage

pytestmark = pytest.mark.store

ENTRY = LedgerEntry("job-1:settle:0", "org-1", "customer:org-1", "revenue", 2**62, "settle", 1.5, "job-1")


async def test_an_entry_is_stored_once_and_not_changed(connection: StoreConnection) -> None:
    ledger = MongoLedgerStore(connection)
    await ledger.post([])
    await ledger.post([ENTRY])
    usage = Usage(prompt_tokens=3, completion_tokens=2, cached_tokens=1)
    second = replace(ENTRY, id="job-2:settle:0", job="job-2", usage=usage, price_version=4)
    await ledger.post([replace(ENTRY, amount=1), second])
    rows = {each["_id"]: each async for each in connection.durable("ledger").find()}
    assert rows[ENTRY.id]["amount"] == 2**62
    assert "usage" not in rows[ENTRY.id]
    assert rows[second.id]["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "cached_tokens": 1}
    assert (rows[second.id]["price_version"], len(rows)) == (4, 2)
