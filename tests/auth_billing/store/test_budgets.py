"""Budgets in the documents of accounts; their effect on holds is in `tests/auth_billing/money/test_budgets.py`."""

from __future__ import annotations

import pytest

from auth_billing.store.balances import MongoBalanceStore
from auth_billing.store.budgets import MongoBudgetStore
from auth_billing.store.connection import StoreConnection

pytestmark = pytest.mark.store


async def test_a_limit_is_set_changed_and_removed(connection: StoreConnection) -> None:
    balances, budgets = MongoBalanceStore(connection), MongoBudgetStore(connection)
    await balances.create("org-1")
    for limit in (5, 2**62):
        await budgets.set("org-1", "project:proj_1", limit)
    await budgets.set("org-1", "key:key1", 0)
    await budgets.set("org-1", "key:key2", None)
    balance = await balances.find("org-1")
    assert balance is not None
    assert balance.budgets == {"project:proj_1": 2**62, "key:key1": 0}
    await budgets.set("org-1", "project:proj_1", None)
    balance = await balances.find("org-1")
    assert balance is not None
    assert balance.budgets == {"key:key1": 0}


async def test_a_successor_gets_limit_and_use_together(connection: StoreConnection) -> None:
    balances, budgets = MongoBalanceStore(connection), MongoBudgetStore(connection)
    await balances.create("org-1")
    await budgets.inherit("org-1", "key:key2", 9, "2026-11", 4)
    balance = await balances.find("org-1")
    assert balance is not None
    assert (balance.budgets, balance.used) == ({"key:key2": 9}, {"2026-11": {"key:key2": 4}})


async def test_an_organisation_without_an_account_gets_no_budget(connection: StoreConnection) -> None:
    await MongoBudgetStore(connection).set("org-2", "organisation", 5)
    assert await MongoBalanceStore(connection).find("org-2") is None
