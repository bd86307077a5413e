"""Settlement with stores in memory and in MongoDB: once, at most the hold, by the first statement."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from auth_billing.metrics import BillingMetrics
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import (
    BillingStores,
)
from auth_billing.money.settler import SettlementResult, Settler
from router.messages import Usage
from tests.auth_billing.conftest import SetAccount
from tests.auth_billing.workload import (
    COST,
    HELD,
    ORGANISATION,
    check_idle,
    hold,
    hold_request,
    principal,
    receipt,
)


async def test_the_first_statement_is_final(
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


async def test_many_jobs_of_many_organisations_are_settled_together(
    stores: BillingStores, billing: Billing, settler: Settler, set_account: SetAccount
) -> None:
    jobs: dict[str, list[str]] = {f"org-{n}": [f"job-{n}-{k}" for k in range(30)] for n in range(3)}
    for organisation, ids in jobs.items():
        await set_account(organisation, available=30 * HELD)
        await hold(billing, principal(organisation), [hold_request(job) for job in ids])
    await settler.settle({job: receipt() for ids in jobs.values() for job in ids[:10]})
    results = await settler.settle({job: receipt() for ids in jobs.values() for job in ids})
    assert list(results.values()).count(SettlementResult.SETTLED) == 60
    for organisation, ids in jobs.items():
        assert await check_idle(stores, organisation, 30 * HELD, ids) == 30 * COST


async def test_a_lost_hold_is_restored_and_charged(
    stores: BillingStores, billing: Billing, settler: Settler, set_account: SetAccount
) -> None:
    await set_account(ORGANISATION, available=5 * HELD)
    await hold(billing, principal(), [hold_request("job-1"), hold_request("job-2")])
    await set_account(ORGANISATION, available=5 * HELD, held_map={}, used={})  # as after a crash that lost the hold
    await settler.settle({"job-1": receipt(), "job-2": receipt(Usage(prompt_tokens=0))})
    assert await check_idle(stores, ORGANISATION, 5 * HELD, ["job-1", "job-2"]) == COST
