"""Credit entries in MongoDB and in memory: numbered without gaps, and applied to the account once and in order."""

from __future__ import annotations

from dataclasses import replace

from auth_billing.money.billing_records import BillingStores
from auth_billing.money.credit import CreditEntry, CreditKind, CreditStore

FIRST = CreditEntry("org-1", 1, CreditKind.TOP_UP, "payment-1", 100, 5.0)
SECOND = CreditEntry("org-1", 2, CreditKind.REFUND, "refund-1", 30, 6.0, "job-1")


async def test_entries_are_applied_once_and_in_order(credit_store: CreditStore, stores: BillingStores) -> None:
    assert await credit_store.applied("org-1") == (0, 0)
    for entry in (FIRST, SECOND):
        assert await credit_store.append(entry)
    await credit_store.apply(SECOND)  # its predecessor is missing
    assert await credit_store.applied("org-1") == (0, 0)
    for entry in (FIRST, FIRST, SECOND, SECOND, FIRST):
        await credit_store.apply(entry)
    assert await credit_store.applied("org-1") == (2, 130)
    balance = await stores.balances.find("org-1")
    assert balance is not None
    assert (balance.available, balance.credited) == (130, 130)


async def test_ids_and_numbers_are_unique(credit_store: CreditStore) -> None:
    assert await credit_store.append(FIRST)
    assert not await credit_store.append(replace(FIRST, number=2))
    assert not await credit_store.append(replace(SECOND, number=1))
    assert await credit_store.append(replace(FIRST, organisation="org-2"))


async def test_entries_are_found_by_id_number_job_and_time(credit_store: CreditStore) -> None:
    for entry in (FIRST, SECOND):
        await credit_store.append(entry)
    assert await credit_store.find(FIRST.id) == FIRST
    assert await credit_store.find("org-1:promo:payment-1") is None
    assert await credit_store.find_numbered("org-1", 2) == SECOND
    assert await credit_store.find_numbered("org-2", 1) is None
    assert await credit_store.newest("org-1", 1) == [SECOND]
    assert [await credit_store.refunded("org-1", job) for job in ("job-1", "job-2")] == [30, 0]
    assert list(await credit_store.credited_since(6.0)) == ["org-1"]
    assert list(await credit_store.credited_since(6.5)) == []
