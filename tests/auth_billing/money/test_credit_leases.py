"""Credit leases: exact accounts, a bounded share of the credit, and release when idle, closed or lost."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from auth_billing.errors import AccountClosed, BudgetExhausted, InsufficientCredit
from auth_billing.metrics import BillingMetrics
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import Balance, BillingStores, SettlementSource, UsageStatement
from auth_billing.money.credit_leases import LEASE_SHARE, MIN_REQUESTS, Payer, leasable
from auth_billing.money.holds import key_budget, month_of
from auth_billing.money.settler import Settler
from router.messages import Outcome, Usage
from router.timings import DEFAULT_TIMINGS
from tests.auth_billing.conftest import SetAccount
from tests.auth_billing.workload import HELD, ORGANISATION, check_idle, hold, hold_request, principal
from tests.fakes.accounts import FakeClock
from tests.fakes.billing_stores import price_book

NOW = 1_700_000_000.0
MONTH = month_of(NOW)
CREDIT = 1_000 * HELD
DELIVERED = UsageStatement(Usage(prompt_tokens=100, completion_tokens=7), Outcome.FINISHED, SettlementSource.RECEIPT)
COST = 100 * 2 + 7 * 10


class Gateway:
    """The billing of one gateway, with a fake clock."""

    def __init__(self, stores: BillingStores, name: str = "gateway-1") -> None:
        self.stores = stores
        self.name = name
        self.clock = FakeClock(50_000.0)
        self.billing = Billing(stores, price_book(), clock=lambda: NOW, monotonic=self.clock)
        self.jobs: list[str] = []

    async def hold(self, times: int = 1, key: str = "key1") -> None:
        for _ in range(times):
            self.jobs.append(f"job-{self.name}-{len(self.jobs)}")
            await hold(self.billing, principal(key=key), [hold_request(self.jobs[-1], gateway=self.name)])

    async def balance(self) -> Balance:
        balance = await self.stores.balances.find(ORGANISATION)
        assert balance is not None
        return balance

    async def leased(self) -> int:
        return sum(lease.amount for lease in (await self.balance()).leases.values())

    async def settle(self) -> None:
        settler = Settler(self.stores, BillingMetrics(CollectorRegistry()), clock=lambda: NOW)
        await settler.settle(dict.fromkeys(self.jobs, DELIVERED))


@pytest.fixture
def gateway(stores: BillingStores) -> Gateway:
    return Gateway(stores)


async def test_the_second_request_takes_a_lease_and_later_ones_draw_on_it(
    gateway: Gateway, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=CREDIT)
    await gateway.hold()
    assert await gateway.leased() == 0
    await gateway.hold()
    assert await gateway.leased() == MIN_REQUESTS * HELD
    before = await gateway.balance()
    await gateway.billing.reserve(principal(), [hold_request("job-leased", gateway="gateway-1")])
    gateway.jobs.append("job-leased")
    assert await gateway.balance() == before  # the request did not wait for the store
    await gateway.billing.flush_jobs(["job-leased"])
    after = await gateway.balance()
    assert after.held["job-leased"].amount == HELD
    assert sum(hold.amount for hold in after.held.values()) + after.available == CREDIT
    assert after.used[MONTH]["organisation"] == CREDIT - after.available
    await gateway.settle()
    await gateway.billing.release_leases()
    assert await check_idle(gateway.stores, ORGANISATION, CREDIT, gateway.jobs) == 3 * COST


async def test_idle_leases_are_released(gateway: Gateway, set_account: SetAccount) -> None:
    await set_account(ORGANISATION, available=CREDIT)
    await gateway.hold(3)
    await gateway.billing.record_heartbeat("gateway-1")
    assert await gateway.leased()
    gateway.clock.now += DEFAULT_TIMINGS.credit_lease_freshness + 1
    await gateway.billing.record_heartbeat("gateway-1")
    assert not await gateway.leased()
    await gateway.settle()
    assert await check_idle(gateway.stores, ORGANISATION, CREDIT, gateway.jobs) == 3 * COST


async def test_the_last_credit_is_not_leased(gateway: Gateway, set_account: SetAccount) -> None:
    await set_account(ORGANISATION, available=LEASE_SHARE * MIN_REQUESTS * HELD // 2)
    await gateway.hold(6)
    assert not await gateway.leased()


async def test_the_last_of_a_budget_is_not_leased(gateway: Gateway, set_account: SetAccount) -> None:
    await set_account(
        ORGANISATION, available=CREDIT, budgets={key_budget("key1"): LEASE_SHARE * MIN_REQUESTS * HELD // 2}
    )
    await gateway.hold(3)
    assert not await gateway.leased()
    await gateway.hold(3, key="key2")
    assert await gateway.leased()


async def test_leased_credit_can_still_be_held(gateway: Gateway, set_account: SetAccount) -> None:
    await set_account(ORGANISATION, available=100 * HELD)
    await gateway.hold(3)
    await gateway.hold(3, key="key2")
    assert await gateway.leased()
    for _ in range(100 - len(gateway.jobs)):
        gateway.jobs.append(f"job-{len(gateway.jobs)}")
        await gateway.billing.reserve(principal(), [hold_request(gateway.jobs[-1], gateway="gateway-1")])
    with pytest.raises(InsufficientCredit):
        await gateway.billing.reserve(principal(), [hold_request("job-too-many", gateway="gateway-1")])
    await gateway.billing.flush_jobs(gateway.jobs)
    balance = await gateway.balance()
    assert (len(balance.held), balance.available, len(gateway.jobs)) == (100, 0, 100)
    await gateway.settle()
    assert await check_idle(gateway.stores, ORGANISATION, 100 * HELD, gateway.jobs) == 100 * COST


async def test_leases_of_two_gateways_stay_within_their_share(stores: BillingStores, set_account: SetAccount) -> None:
    credit = 128 * HELD
    await set_account(ORGANISATION, available=credit)
    gateways = [Gateway(stores, f"gateway-{number}") for number in (1, 2)]

    async def hold_all(gateway: Gateway) -> int:
        granted = 0
        for number in range(200):
            job = f"job-{gateway.name}-{number}"
            try:
                await gateway.billing.reserve(principal(), [hold_request(job, gateway=gateway.name)])
            except InsufficientCredit:
                if not await gateway.leased():
                    break
                await asyncio.sleep(0.01)
                continue
            gateway.jobs.append(job)
            granted += 1
            if number % 8 == 0:
                await gateway.billing.flush_jobs(gateway.jobs)
                assert await gateway.leased() <= 2 * credit // LEASE_SHARE
        await gateway.billing.release_leases()
        return granted

    granted = await asyncio.gather(*map(hold_all, gateways))
    balance = await gateways[0].balance()
    assert sum(granted) * HELD == sum(each.amount for each in balance.held.values())
    assert (balance.available + sum(granted) * HELD, not balance.leases) == (credit, True)
    assert sum(granted) >= 128 * (LEASE_SHARE - 1) // LEASE_SHARE


async def test_a_closed_account_ends_its_leases(gateway: Gateway, set_account: SetAccount) -> None:
    await set_account(ORGANISATION, available=CREDIT)
    await gateway.hold(3)
    await gateway.stores.balances.set_open(ORGANISATION, to=False)
    with pytest.raises(AccountClosed):
        await gateway.hold(3)  # a first one may be drawn from the lease
    await gateway.billing.record_heartbeat("gateway-1")
    assert not await gateway.leased()


async def test_a_lower_budget_limits_leases(gateway: Gateway, set_account: SetAccount) -> None:
    await set_account(ORGANISATION, available=CREDIT)
    await gateway.hold(3)
    await set_account(ORGANISATION, budgets={key_budget("key1"): HELD})
    with pytest.raises(BudgetExhausted):
        await gateway.hold(3)
    await gateway.billing.record_heartbeat("gateway-1")
    assert not await gateway.leased()


async def test_an_unconfirmed_lease_is_not_drawn_on(gateway: Gateway, set_account: SetAccount) -> None:
    await set_account(ORGANISATION, available=CREDIT)
    await gateway.hold(3)
    await gateway.stores.balances.set_open(ORGANISATION, to=False)
    gateway.clock.now += DEFAULT_TIMINGS.credit_lease_freshness + 1
    with pytest.raises(AccountClosed):
        await gateway.billing.reserve(principal(), [hold_request("job-late", gateway="gateway-1")])


async def test_jobs_of_a_lost_lease_hold_from_the_account(
    gateway: Gateway, set_account: SetAccount, stores: BillingStores
) -> None:
    """A crash of the store loses writes that were not journaled."""
    await set_account(ORGANISATION, available=CREDIT)
    await gateway.hold(3)
    held = {"held_map": {}, "used": {}}
    await gateway.billing.reserve(principal(), [hold_request("job-leased", gateway="gateway-1")])
    gateway.jobs.append("job-leased")
    await set_account(ORGANISATION, available=CREDIT, **held)
    await gateway.billing.flush_jobs(["job-leased"])
    assert (await gateway.balance()).held["job-leased"].amount == HELD
    await gateway.settle()
    await gateway.billing.release_leases()
    assert await check_idle(stores, ORGANISATION, CREDIT, gateway.jobs) == 4 * COST


async def test_a_job_held_from_a_lease_can_be_voided_at_once(gateway: Gateway, set_account: SetAccount) -> None:
    await set_account(ORGANISATION, available=CREDIT)
    await gateway.hold(3)
    await gateway.billing.reserve(principal(), [hold_request("job-leased", gateway="gateway-1")])
    await gateway.billing.void(["job-leased"])
    await gateway.settle()
    await gateway.billing.release_leases()
    assert await check_idle(gateway.stores, ORGANISATION, CREDIT, [*gateway.jobs, "job-leased"]) == 3 * COST


def test_leasable_credit_is_a_share_of_credit_and_budgets() -> None:
    payer = Payer(ORGANISATION, "proj_1", "key1", MONTH)
    assert leasable(Balance(ORGANISATION, 1600, 0), payer) == (100, False)
    assert leasable(Balance(ORGANISATION, 1600, 0, is_open=False), payer) == (0, True)
    budgets = {key_budget("key1"): 480, key_budget("key2"): 0}
    assert leasable(Balance(ORGANISATION, 1600, 0, budgets=budgets), payer) == (30, False)
    used = {MONTH: {key_budget("key1"): 500}}
    assert leasable(Balance(ORGANISATION, 1600, 0, budgets=budgets, used=used), payer) == (0, False)
