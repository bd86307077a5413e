"""Accounts in MongoDB and in memory: each change is one conditional update, which has no effect if it is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auth_billing.money.billing_records import Balance, BillingStores, Charge, FinalUsage, Hold, SettlementSource
from router.messages import Outcome, Usage
from tests.auth_billing.conftest import SetAccount
from tests.auth_billing.money.test_hold_batcher import job

ORGANISATION, MONTH = "org-1", "2026-11"
LEASE = Hold(100, MONTH, "proj_1", "key1", "gateway-1", 5.0)


async def balance_of(stores: BillingStores) -> Balance:
    balance = await stores.balances.find(ORGANISATION)
    assert balance is not None
    return balance


async def test_creating_an_account_again_does_not_empty_it(stores: BillingStores, set_account: SetAccount) -> None:
    await set_account(ORGANISATION, available=7)
    await stores.balances.create(ORGANISATION)
    assert (await balance_of(stores)).available == 7
    assert await stores.balances.find("org-2") is None


async def test_a_job_is_held_once_and_only_with_the_budgets_that_the_caller_knows(
    stores: BillingStores, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=100, budgets={"organisation": 50})
    balances = stores.balances
    assert not await balances.hold([job("a")], {})
    assert await balances.hold([job("a")], {"organisation": 50})
    assert not await balances.hold([job("b"), job("a")], {"organisation": 50})
    assert not await balances.hold([job("b", 41)], {"organisation": 50})
    balance = await balance_of(stores)
    assert (balance.available, set(balance.held), balance.used[MONTH]["organisation"]) == (90, {"a"}, 10)
    assert [each.organisation for each in await balances.with_holds()] == [ORGANISATION]


async def test_a_lease_is_extended_only_as_the_account_was_read(stores: BillingStores, set_account: SetAccount) -> None:
    await set_account(ORGANISATION, available=250)
    empty, balances = await balance_of(stores), stores.balances
    assert await balances.extend_lease(empty, "lease-1", LEASE)
    assert not await balances.extend_lease(empty, "lease-1", LEASE)  # `empty` does not have it
    leased = await balance_of(stores)
    assert await balances.extend_lease(leased, "lease-1", replace(LEASE, at=6.0))
    assert not await balances.extend_lease(leased, "lease-1", LEASE)  # too little is left
    balance = await balance_of(stores)
    assert (balance.available, balance.leases) == (50, {"lease-1": replace(LEASE, amount=200, at=6.0)})
    assert balance.used[MONTH]["key:key1"] == 200


async def test_jobs_are_held_from_leases_all_or_none(stores: BillingStores, set_account: SetAccount) -> None:
    await set_account(ORGANISATION, available=100)
    balances = stores.balances
    assert await balances.extend_lease(await balance_of(stores), "lease-1", LEASE)
    assert not await balances.hold_from_leases(ORGANISATION, {"lease-1": [job("a", 60), job("b", 41)]})
    assert not await balances.hold_from_leases(ORGANISATION, {"lease-1": [job("a", 60)], "lease-2": [job("b", 1)]})
    assert await balances.hold_from_leases(ORGANISATION, {"lease-1": [job("a", 60), job("b", 40)]})
    assert not await balances.hold_from_leases(ORGANISATION, {"lease-1": [job("a", 0)]})
    balance = await balance_of(stores)
    assert {id: hold.amount for id, hold in balance.held.items()} == {"lease-1": 0, "a": 60, "b": 40}
    assert (balance.available, balance.used[MONTH]["organisation"]) == (0, 100)


async def test_a_hold_is_released_only_with_the_amount_that_was_read(
    stores: BillingStores, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=100)
    await stores.balances.hold([job("a")], {})
    hold = (await balance_of(stores)).held["a"]
    assert not await stores.balances.release(ORGANISATION, "a", replace(hold, amount=11))
    assert await stores.balances.release(ORGANISATION, "a", hold)
    assert not await stores.balances.release(ORGANISATION, "a", hold)
    balance = await balance_of(stores)
    assert (balance.available, balance.held, balance.used[MONTH]["organisation"]) == (100, {}, 0)


async def test_settlement_spends_the_cost_and_frees_the_rest_all_or_none(
    stores: BillingStores, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=100)
    await stores.balances.hold([job("a"), job("b")], {})
    final = FinalUsage(Usage(prompt_tokens=1), Outcome.FINISHED, SettlementSource.RECEIPT, 5.0)
    assert not await stores.balances.settle([Charge(job("a"), 3, final), Charge(job("c"), 3, final)])
    assert await stores.balances.settle([Charge(job("a"), 3, final)])
    balance = await balance_of(stores)
    assert (balance.available, balance.spent, set(balance.held)) == (87, 3, {"b"})
    assert balance.used[MONTH]["organisation"] == 13


async def test_a_hold_is_restored_only_into_an_unchanged_account(
    stores: BillingStores, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=100)
    version = (await balance_of(stores)).version
    assert await stores.balances.restore_hold(job("a"), version)
    assert not await stores.balances.restore_hold(job("b"), version)
    assert set((await balance_of(stores)).held) == {"a"}


@pytest.mark.parametrize("is_open", [False, True])
async def test_a_closed_account_takes_no_hold_and_no_lease(
    stores: BillingStores, set_account: SetAccount, is_open: bool
) -> None:
    await set_account(ORGANISATION, available=200)
    assert await stores.balances.set_open(ORGANISATION, to=is_open)
    assert not await stores.balances.set_open("org-2", to=is_open)
    assert await stores.balances.hold([job("a")], {}) is is_open
    assert await stores.balances.extend_lease(await balance_of(stores), "lease-1", LEASE) is is_open


async def test_the_usage_of_dropped_months_is_deleted(stores: BillingStores, set_account: SetAccount) -> None:
    await set_account(ORGANISATION, used={"2026-08": {"organisation": 1}, "2026-11": {"organisation": 2}})
    await stores.balances.drop_months(ORGANISATION, ["2026-08", "2026-07"])
    assert (await balance_of(stores)).used == {"2026-11": {"organisation": 2}}
