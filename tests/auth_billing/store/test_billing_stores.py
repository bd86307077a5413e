"""Holds and settlements over both kinds of books: all or nothing, once, and never more than there is."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from auth_billing.errors import AccountClosed, BudgetExhausted, InsufficientCredit
from auth_billing.metrics import BillingMetrics
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import (
    BillingStores,
    Charge,
    FinalUsage,
    JobState,
    SettlementSource,
    UsageStatement,
)
from auth_billing.money.holds import ORGANISATION_BUDGET, key_budget, month_of, project_budget
from auth_billing.money.settler import SettlementResult, Settler
from router.messages import Outcome, Usage
from tests.auth_billing.store.conftest import SetAccount
from tests.auth_billing.workload import HELD, ORGANISATION, check_idle, hold, hold_request, principal
from tests.fakes.billing_stores import price_book

NOW = 1_700_000_000.0
MONTH = month_of(NOW)
USED = Usage(prompt_tokens=100, completion_tokens=7, cached_tokens=40)
COST = 60 * 2 + 40 * 1 + 7 * 10


def receipt(usage: Usage = USED, outcome: Outcome = Outcome.FINISHED) -> UsageStatement:
    return UsageStatement(usage, outcome, SettlementSource.RECEIPT)


@pytest.fixture
def billing(stores: BillingStores) -> Billing:
    return Billing(stores, price_book(), clock=lambda: NOW)


@pytest.fixture
def settler(stores: BillingStores) -> Settler:
    return Settler(stores, BillingMetrics(CollectorRegistry()), clock=lambda: NOW)


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
    asked = await asyncio.gather(
        *(hold(billing, principal(), [hold_request(f"job-{n}")]) for n in range(8)), return_exceptions=True
    )
    assert asked.count(None) == 1
    refused = [each for each in asked if each is not None]
    assert all(isinstance(each, InsufficientCredit) for each in refused)
    assert len(await stores.jobs.find([f"job-{n}" for n in range(8)])) == 1
    balance = await stores.balances.find(ORGANISATION)
    assert balance is not None
    assert balance.available == 0


async def test_of_several_jobs_all_are_held_or_none(
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
async def test_each_budget_of_a_month_holds(
    stores: BillingStores, billing: Billing, settler: Settler, set_account: SetAccount, budget: str
) -> None:
    await set_account(ORGANISATION, available=100 * HELD, budgets={budget: 2 * HELD - 1})
    await hold(billing, principal(), [hold_request("job-1")])
    with pytest.raises(BudgetExhausted) as caught:
        await hold(billing, principal(), [hold_request("job-2")])
    assert (caught.value.budget, caught.value.left) == (budget, HELD - 1)
    await settler.settle({"job-1": receipt(Usage(prompt_tokens=0))})
    await hold(billing, principal(), [hold_request("job-2")])  # what was not used is there again


async def test_another_key_and_the_next_month_have_budgets_of_their_own(
    stores: BillingStores, billing: Billing, settler: Settler, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=100 * HELD, budgets={key_budget("key1"): HELD})
    await hold(billing, principal(), [hold_request("job-1")])
    await hold(billing, principal(key="key2"), [hold_request("job-2")])
    with pytest.raises(BudgetExhausted):
        await hold(billing, principal(), [hold_request("job-3")])
    next_month = Billing(stores, price_book(), clock=lambda: NOW + 31 * 86400)
    await hold(next_month, principal(), [hold_request("job-3")])
    await settler.settle({"job-1": receipt()})  # accepted in the old month, so it counts there
    balance = await stores.balances.find(ORGANISATION)
    assert balance is not None
    assert balance.used[MONTH]["key:key1"] == COST
    assert balance.used[month_of(NOW + 31 * 86400)] == {"organisation": HELD, "project:proj_1": HELD, "key:key1": HELD}


async def test_an_account_that_is_closed_settles_and_takes_nothing_new(
    stores: BillingStores, billing: Billing, settler: Settler, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=100 * HELD)
    await hold(billing, principal(), [hold_request("job-1")])
    assert await stores.balances.set_open(ORGANISATION, to=False)
    with pytest.raises(AccountClosed):
        await hold(billing, principal(), [hold_request("job-2")])
    await settler.settle({"job-1": receipt()})
    assert await check_idle(stores, ORGANISATION, 100 * HELD, ["job-1"]) == COST


async def test_a_new_organisation_has_an_account_with_nothing_in_it(stores: BillingStores, billing: Billing) -> None:
    asked = await asyncio.gather(
        *(hold(billing, principal("org-new"), [hold_request(f"job-{n}")]) for n in range(4)), return_exceptions=True
    )
    assert all(isinstance(each, InsufficientCredit) for each in asked)
    assert await check_idle(stores, "org-new", 0, []) == 0


async def test_what_was_not_queued_costs_nothing(
    stores: BillingStores, billing: Billing, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=HELD)
    await hold(billing, principal(), [hold_request("job-1")])
    await billing.void(["job-1", "job-unknown"])
    await billing.void(["job-1"])
    assert await check_idle(stores, ORGANISATION, HELD, ["job-1"]) == 0


async def test_the_first_word_counts(
    stores: BillingStores, billing: Billing, settler: Settler, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=HELD)
    await hold(billing, principal(), [hold_request("job-1")])
    assert await settler.settle({"job-1": receipt()}) == {"job-1": SettlementResult.SETTLED}
    assert await settler.settle({"job-1": receipt()}) == {"job-1": SettlementResult.REPEATED}
    other = receipt(Usage(prompt_tokens=1))
    assert await settler.settle({"job-1": other, "job-2": other}) == {
        "job-1": SettlementResult.CONFLICTING,
        "job-2": SettlementResult.UNKNOWN,
    }
    assert await check_idle(stores, ORGANISATION, HELD, ["job-1"]) == COST


async def test_a_job_costs_at_most_its_hold(stores: BillingStores, billing: Billing, set_account: SetAccount) -> None:
    metrics = BillingMetrics(CollectorRegistry())
    await set_account(ORGANISATION, available=3 * HELD)
    await hold(billing, principal(), [hold_request("job-1")])
    await Settler(stores, metrics).settle({"job-1": receipt(Usage(prompt_tokens=2**62))})
    assert await check_idle(stores, ORGANISATION, 3 * HELD, ["job-1"]) == HELD
    assert metrics.summary()["clamped"] == 1


async def test_whoever_charges_a_job_second_changes_nothing_and_is_told(
    stores: BillingStores, billing: Billing, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=5 * HELD)
    await hold(billing, principal(), [hold_request("job-1"), hold_request("job-2")])
    jobs = await stores.jobs.find(["job-1", "job-2"])
    first, second = (
        FinalUsage(USED, Outcome.FINISHED, source, NOW) for source in (SettlementSource.RECEIPT, SettlementSource.SWEPT)
    )
    assert await stores.jobs.charge([Charge(jobs["job-1"], 3, first)])
    assert not await stores.jobs.charge([Charge(job, 5, second) for job in jobs.values()])
    jobs = await stores.jobs.find(jobs)
    assert jobs["job-1"] == Charge(jobs["job-1"], 3, first).charged
    assert jobs["job-2"] == Charge(jobs["job-2"], 5, second).charged


async def test_many_jobs_of_many_organisations_are_settled_together(
    stores: BillingStores, billing: Billing, settler: Settler, set_account: SetAccount
) -> None:
    jobs: dict[str, list[str]] = {f"org-{n}": [f"job-{n}-{k}" for k in range(30)] for n in range(3)}
    for organisation, ids in jobs.items():
        await set_account(organisation, available=30 * HELD)
        await hold(billing, principal(organisation), [hold_request(job) for job in ids])
    await settler.settle({job: receipt() for ids in jobs.values() for job in ids[:10]})
    verdicts = await settler.settle({job: receipt() for ids in jobs.values() for job in ids})
    assert list(verdicts.values()).count(SettlementResult.SETTLED) == 60
    for organisation, ids in jobs.items():
        assert await check_idle(stores, organisation, 30 * HELD, ids) == 30 * COST


async def test_a_checkpoint_never_goes_back(stores: BillingStores, billing: Billing, set_account: SetAccount) -> None:
    await set_account(ORGANISATION, available=HELD)
    await hold(billing, principal(), [hold_request("job-1")])
    for tokens in (3, 9, 5):
        await billing.checkpoint({"job-1": Usage(prompt_tokens=8, completion_tokens=tokens), "job-2": USED})
    jobs = await stores.jobs.find(["job-1", "job-2"])
    assert {job.checkpoint for job in jobs.values()} == {Usage(prompt_tokens=8, completion_tokens=9)}


async def test_a_hold_that_the_store_has_lost_is_charged_all_the_same(
    stores: BillingStores, billing: Billing, settler: Settler, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=5 * HELD)
    await hold(billing, principal(), [hold_request("job-1"), hold_request("job-2")])
    await set_account(ORGANISATION, available=5 * HELD, held_map={}, used={})  # as before the machine's crash
    await settler.settle({"job-1": receipt(), "job-2": receipt(Usage(prompt_tokens=0))})
    assert await check_idle(stores, ORGANISATION, 5 * HELD, ["job-1", "job-2"]) == COST


async def test_gateways_are_heard(stores: BillingStores, billing: Billing) -> None:
    for _ in range(3):
        await billing.record_heartbeat("gateway-1")
    await asyncio.gather(*(billing.record_heartbeat("gateway-2") for _ in range(4)))
    assert await stores.heartbeats.counts() == {"gateway-1": 3, "gateway-2": 4}
