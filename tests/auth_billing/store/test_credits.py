"""Credit entries in MongoDB and in memory: numbered without gaps, and applied to the account once and in order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from auth_billing.money.billing_records import BillingStores
from auth_billing.money.credit import CreditEntry, CreditKind, CreditStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.credits import MongoCreditStore
from tests.fakes.billing_stores import DictBalanceStore
from tests.fakes.credits import DictCreditStore

FIRST = CreditEntry("org-1", 1, CreditKind.TOP_UP, "payment-1", 100, 5.0)
SECOND = CreditEntry("org-1", 2, CreditKind.REFUND, "refund-1", 30, 6.0, "job-1")


@pytest.fixture
async def credits(stores: BillingStores, request: pytest.FixtureRequest) -> AsyncIterator[CreditStore]:
    if isinstance(stores.balances, DictBalanceStore):
        yield DictCreditStore(stores.balances)
        return
    connection = StoreConnection(request.getfixturevalue("database_url"), operation_ms=20_000)
    yield MongoCreditStore(connection)
    connection.close()


async def test_entries_are_applied_once_and_in_order(credits: CreditStore, stores: BillingStores) -> None:
    assert await credits.applied("org-1") == (0, 0)
    for entry in (FIRST, SECOND):
        assert await credits.append(entry)
    await credits.apply(SECOND)  # its predecessor is missing
    assert await credits.applied("org-1") == (0, 0)
    for entry in (FIRST, FIRST, SECOND, SECOND, FIRST):
        await credits.apply(entry)
    assert await credits.applied("org-1") == (2, 130)
    balance = await stores.balances.find("org-1")
    assert balance is not None
    assert (balance.available, balance.credited) == (130, 130)


async def test_ids_and_numbers_are_unique(credits: CreditStore) -> None:
    assert await credits.append(FIRST)
    assert not await credits.append(replace(FIRST, number=2))
    assert not await credits.append(replace(SECOND, number=1))
    assert await credits.append(replace(FIRST, organisation="org-2"))


async def test_entries_are_found_by_id_number_job_and_time(credits: CreditStore) -> None:
    for entry in (FIRST, SECOND):
        await credits.append(entry)
    assert await credits.find(FIRST.id) == FIRST
    assert await credits.find("org-1:promo:payment-1") is None
    assert await credits.find_numbered("org-1", 2) == SECOND
    assert await credits.find_numbered("org-2", 1) is None
    assert await credits.newest("org-1", 1) == [SECOND]
    assert [await credits.refunded("org-1", job) for job in ("job-1", "job-2")] == [30, 0]
    assert list(await credits.credited_since(6.0)) == ["org-1"]
    assert list(await credits.credited_since(6.5)) == []
