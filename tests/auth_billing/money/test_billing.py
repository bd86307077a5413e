"""Holds and voids of a gateway, with stores in memory and in MongoDB: all or nothing, never more than the credit."""

from __future__ import annotations

import asyncio

import pytest

from auth_billing.errors import AccountClosed, BudgetExhausted, InsufficientCredit
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import (
    BillingStores,
    JobState,
)
from auth_billing.money.holds import ORGANISATION_BUDGET, key_budget, month_of, project_budget
from auth_billing.money.settler import SettlementResult, Settler
from router.messages import Usage
from tests.auth_billing.conftest import SetAccount
from tests.auth_billing.workload import (
    COST,
    HELD,
    NOW,
    ORGANISATION,
    USED,
    check_idle,
    hold,
    hold_request,
    principal,
    receipt,
)
from tests.fakes.billing_stores import price_book

MONTH = month_of(NOW)


async def test_a_job_is_held_then_settled_to_what_was_delivered(
    stores: BillingStores, billing: Billing, settler: Settler, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=5 * HELD)
    await hold(billing, principal(), [hold_request("job-1")])
    balance = await stores.balances.find(ORGANISATION)
    assert balance is not None
    assert (balance.available, balance.held["job-1"].amount) == (4 * HELD, HELD)
    assert balance.used == {MONTH: {ORGANISATION_BUDGET: HELD, "project:proj_1": HELD, "key:key1": HELD}}
    assert await settler.settle({"job-1": receipt()}) == {"job-1": SettlementResult.SETTLED}
    job = (await stores.jobs.find(["job-1"]))["job-1"]
    assert (job.state, job.cost, job.project, job.key, job.user) == (JobState.SETTLED, COST, "proj_1", "key1", "user-1")
    assert job.final is not None
    assert (job.final.usage, job.price.version) == (USED, 1)
    assert await check_idle(stores, ORGANISATION, 5 * HELD, ["job-1"]) == COST


async def test_the_last_cent_is_given_once(stores: BillingStores, billing: Billing, set_account: SetAccount) -> None:
    await set_account(ORGANISATION, available=HELD)
    results = await asyncio.gather(
        *(hold(billing, principal(), [hold_request(f"job-{n}")]) for n in range(8)), return_exceptions=True
    )
    assert results.count(None) == 1
    refused = [each for each in results if each is not None]
    assert all(isinstance(each, InsufficientCredit) for each in refused)
    assert len(await stores.jobs.find([f"job-{n}" for n in range(8)])) == 1
    balance = await stores.balances.find(ORGANISATION)
    assert balance is not None
    assert balance.available == 0


async def test_several_jobs_are_held_all_or_none(
    stores: BillingStores, billing: Billing, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=3 * HELD)
    with pytest.raises(InsufficientCredit) as caught:
        await hold(billing, principal(), [hold_request(f"job-{n}") for n in range(4)])
    assert (caught.value.available, caught.value.needed) == (3 * HELD, 4 * HELD)
    assert await stores.jobs.find([f"job-{n}" for n in range(4)]) == {}
    await hold(billing, principal(), [hold_request(f"job-{n}") for n in range(3)])
    assert len(await stores.jobs.find([f"job-{n}" for n in range(3)])) == 3


@pytest.mark.parametrize("budget", [ORGANISATION_BUDGET, project_budget("proj_1"), key_budget("key1")])
async def test_each_monthly_budget_limits_holds(
    stores: BillingStores, billing: Billing, settler: Settler, set_account: SetAccount, budget: str
) -> None:
    await set_account(ORGANISATION, available=100 * HELD, budgets={budget: 2 * HELD - 1})
    await hold(billing, principal(), [hold_request("job-1")])
    with pytest.raises(BudgetExhausted) as caught:
        await hold(billing, principal(), [hold_request("job-2")])
    assert (caught.value.budget, caught.value.left) == (budget, HELD - 1)
    await settler.settle({"job-1": receipt(Usage(prompt_tokens=0))})
    await hold(billing, principal(), [hold_request("job-2")])  # the unused part of the hold is available again


async def test_keys_and_months_have_separate_budgets(
    stores: BillingStores, billing: Billing, settler: Settler, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=100 * HELD, budgets={key_budget("key1"): HELD})
    await hold(billing, principal(), [hold_request("job-1")])
    await hold(billing, principal(key="key2"), [hold_request("job-2")])
    with pytest.raises(BudgetExhausted):
        await hold(billing, principal(), [hold_request("job-3")])
    next_month = Billing(stores, price_book(), clock=lambda: NOW + 31 * 86400)
    await hold(next_month, principal(), [hold_request("job-3")])
    await settler.settle({"job-1": receipt()})  # counts in the month of its acceptance
    balance = await stores.balances.find(ORGANISATION)
    assert balance is not None
    assert balance.used[MONTH]["key:key1"] == COST
    assert balance.used[month_of(NOW + 31 * 86400)] == {"organisation": HELD, "project:proj_1": HELD, "key:key1": HELD}


async def test_a_closed_account_settles_but_refuses_new_holds(
    stores: BillingStores, billing: Billing, settler: Settler, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=100 * HELD)
    await hold(billing, principal(), [hold_request("job-1")])
    assert await stores.balances.set_open(ORGANISATION, to=False)
    with pytest.raises(AccountClosed):
        await hold(billing, principal(), [hold_request("job-2")])
    await settler.settle({"job-1": receipt()})
    assert await check_idle(stores, ORGANISATION, 100 * HELD, ["job-1"]) == COST


async def test_a_new_organisation_gets_an_empty_account(stores: BillingStores, billing: Billing) -> None:
    results = await asyncio.gather(
        *(hold(billing, principal("org-new"), [hold_request(f"job-{n}")]) for n in range(4)), return_exceptions=True
    )
    assert all(isinstance(each, InsufficientCredit) for each in results)
    assert await check_idle(stores, "org-new", 0, []) == 0


async def test_a_voided_job_costs_nothing(stores: BillingStores, billing: Billing, set_account: SetAccount) -> None:
    await set_account(ORGANISATION, available=HELD)
    await hold(billing, principal(), [hold_request("job-1")])
    await billing.void(["job-1", "job-unknown"])
    await billing.void(["job-1"])
    assert await check_idle(stores, ORGANISATION, HELD, ["job-1"]) == 0
