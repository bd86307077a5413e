"""Budgets with stores in memory and in MongoDB (`money/budgets.py`, `store/budgets.py`): in force for the next hold."""

from __future__ import annotations

import pytest

from auth_billing.errors import BudgetExhausted, UnacceptableAmount
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import BillingStores
from auth_billing.money.budgets import Budgets, BudgetUse
from auth_billing.money.holds import ORGANISATION_BUDGET, key_budget, project_budget
from auth_billing.store.budgets import MongoBudgetStore
from auth_billing.store.connection import StoreConnection
from tests.auth_billing.conftest import SetAccount
from tests.auth_billing.workload import HELD, ORGANISATION, hold, hold_request, principal
from tests.fakes.billing_stores import DictBalanceStore, price_book

NOW = 1_700_000_000.0


@pytest.fixture
def budgets(stores: BillingStores, store_connection: StoreConnection | None) -> Budgets:
    if store_connection is not None:
        return Budgets(MongoBudgetStore(store_connection), stores.balances, clock=lambda: NOW)
    assert isinstance(stores.balances, DictBalanceStore)
    return Budgets(stores.balances, stores.balances, clock=lambda: NOW)


async def test_a_budget_limits_the_next_request(
    budgets: Budgets, stores: BillingStores, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=9 * HELD)
    billing = Billing(stores, price_book(), clock=lambda: NOW)
    await hold(billing, principal(), [hold_request("job-1")])
    await budgets.set(ORGANISATION, project_budget("proj_1"), 2 * HELD - 1)
    with pytest.raises(BudgetExhausted):
        await hold(billing, principal(), [hold_request("job-2")])
    await budgets.set(ORGANISATION, project_budget("proj_1"), 2 * HELD)
    await hold(billing, principal(), [hold_request("job-2")])
    await budgets.set(ORGANISATION, project_budget("proj_1"), None)
    await hold(billing, principal(), [hold_request("job-3")])
    assert list(await budgets.used(ORGANISATION)) == [
        BudgetUse("key:key1", None, 0, 3 * HELD),
        BudgetUse(ORGANISATION_BUDGET, None, 0, 3 * HELD),
        BudgetUse("project:proj_1", None, 0, 3 * HELD),
    ]


async def test_a_budget_of_zero_allows_nothing(
    budgets: Budgets, stores: BillingStores, set_account: SetAccount
) -> None:
    await budgets.set(ORGANISATION, ORGANISATION_BUDGET, 0)
    await set_account(ORGANISATION, available=9 * HELD)
    with pytest.raises(BudgetExhausted):
        await hold(Billing(stores, price_book(), clock=lambda: NOW), principal(), [hold_request("job-1")])
    with pytest.raises(UnacceptableAmount):
        await budgets.set(ORGANISATION, ORGANISATION_BUDGET, -1)


async def test_a_successor_key_inherits_the_budget_and_its_use(
    budgets: Budgets, stores: BillingStores, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=9 * HELD)
    billing = Billing(stores, price_book(), clock=lambda: NOW)
    await budgets.inherit(ORGANISATION, "key1", "key0")  # it has none
    await budgets.set(ORGANISATION, key_budget("key1"), 2 * HELD)
    await hold(billing, principal(), [hold_request("job-1")])
    await budgets.inherit(ORGANISATION, "key1", "key2")
    await hold(billing, principal(key="key2"), [hold_request("job-2")])
    with pytest.raises(BudgetExhausted):
        await hold(billing, principal(key="key2"), [hold_request("job-3")])
