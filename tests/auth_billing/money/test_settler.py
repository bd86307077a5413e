"""Settlement with stores in memory and in MongoDB: once, at most the hold, by the first statement."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from auth_billing.metrics import BillingMetrics
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import (
    BillingStores,
)
from auth_billing.money.settler import SettlementResult, Settler
from router.messages import Usage, UsagePart
from tests.auth_billing.conftest import SetAccount
from tests.auth_billing.workload import (
    COST,
    HELD,
    HELD_FOR_PARTS,
    MAX_PARTS,
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


async def test_each_part_costs_the_price_of_its_model_at_acceptance(
    stores: BillingStores, billing: Billing, settler: Settler, set_account: SetAccount
) -> None:
    held = HELD + HELD_FOR_PARTS
    await set_account(ORGANISATION, available=held)
    await hold(billing, principal(), [hold_request("job-1", max_parts=MAX_PARTS)])
    parts = [
        UsagePart(model="router-1.5", usage=Usage(prompt_tokens=40, completion_tokens=3, cached_tokens=30)),
        UsagePart(model="painter", usage=Usage(prompt_tokens=0, units={"512x512": 2})),
        UsagePart(model="tool.weather", usage=Usage(prompt_tokens=0, units={"call": 1})),
        UsagePart(model="tool.free", usage=Usage(prompt_tokens=0, units={"call": 5})),
    ]
    assert await settler.settle({"job-1": receipt(parts=parts)}) == {"job-1": SettlementResult.SETTLED}
    assert await settler.settle({"job-1": receipt(parts=parts)}) == {"job-1": SettlementResult.REPEATED}
    assert await settler.settle({"job-1": receipt()}) == {"job-1": SettlementResult.CONFLICTING}
    expected = (10 * 2 + 30 * 1 + 3 * 10, 600, 7, 0)
    assert await check_idle(stores, ORGANISATION, held, ["job-1"]) == COST + sum(expected)
    final = (await stores.jobs.find(["job-1"]))["job-1"].final
    assert final is not None
    assert final.part_costs == expected


async def test_parts_cost_at_most_the_hold_and_unknown_ones_nothing(
    stores: BillingStores, billing: Billing, set_account: SetAccount
) -> None:
    metrics, held = BillingMetrics(CollectorRegistry()), HELD + HELD_FOR_PARTS
    await set_account(ORGANISATION, available=9 * held)
    await hold(billing, principal(), [hold_request(job, max_parts=MAX_PARTS) for job in ("job-1", "job-2")])
    drawn = [UsagePart(model="painter", usage=Usage(prompt_tokens=0, units={"512x512": 10**6}))]
    unknown = [UsagePart(model="other", usage=Usage(prompt_tokens=10**9))]
    await Settler(stores, metrics).settle({"job-1": receipt(parts=drawn), "job-2": receipt(parts=unknown)})
    assert await check_idle(stores, ORGANISATION, 9 * held, ["job-1", "job-2"]) == held + COST
    finals = {job.id: job.final for job in (await stores.jobs.find(["job-1", "job-2"])).values()}
    assert [final.part_costs for final in finals.values() if final] == [(held - COST,), (0,)]
    assert metrics.summary()["clamped"] == 2
