"""Shared by the tests of money: principals, jobs, and the invariants of accounts, jobs and ledger."""

from __future__ import annotations

from collections.abc import Sequence

from auth_billing.access.principal import Principal
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import BillingStores, JobState, SettlementSource, UsageStatement
from auth_billing.money.holds import HoldRequest
from auth_billing.prices.pricing import PriceList, TokenRate
from router.messages import Outcome, ServiceClass, Usage, UsagePart
from tests.fakes.billing_stores import flat_price

ORGANISATION = "org-1"
HELD = 1_000
"""Nano-USD that `hold_request` holds at the price `flat_price`: 100 prompt tokens at 2, 80 generated tokens at 10."""
MAX_USAGE = Usage(prompt_tokens=100, completion_tokens=80)
NOW = 1_700_000_000.0
USED = Usage(prompt_tokens=100, completion_tokens=7, cached_tokens=40)
COST = 60 * 2 + 40 * 1 + 7 * 10
"""Nano-USD that `USED` costs at the price `flat_price`."""


MAX_PARTS = (
    UsagePart(model="router-1.5", usage=Usage(prompt_tokens=50, completion_tokens=10)),
    UsagePart(model="painter", usage=Usage(prompt_tokens=0, units={"512x512": 4})),
    UsagePart(model="tool.weather", usage=Usage(prompt_tokens=0, units={"call": 2})),
    UsagePart(model="tool.free", usage=Usage(prompt_tokens=0, units={"call": 9})),
)
HELD_FOR_PARTS = 50 * 2 + 10 * 10 + 4 * 300 + 2 * 7
"""Nano-USD that `hold_request` holds in addition for `MAX_PARTS`, at the prices `PART_PRICES`."""
PART_PRICES = PriceList(
    1,
    {
        "painter": dict.fromkeys(ServiceClass, TokenRate(0, 0, 0, units={"512x512": 300})),
        "tool.weather": dict.fromkeys(ServiceClass, TokenRate(0, 0, 0, units={"call": 7})),
    },
    flat_price().default,
)


def receipt(
    usage: Usage = USED, outcome: Outcome = Outcome.FINISHED, parts: Sequence[UsagePart] = ()
) -> UsageStatement:
    return UsageStatement(usage, outcome, SettlementSource.RECEIPT, parts=tuple(parts))


def principal(organisation: str = ORGANISATION, project: str = "proj_1", key: str = "key1") -> Principal:
    return Principal(key_id=key, tenant=organisation, cache_salt="", project=project, user="user-1")


def hold_request(
    job: str,
    *,
    gateway: str = "gateway-1",
    deadline: float = 1e10,
    max_usage: Usage = MAX_USAGE,
    idempotency: str = "",
    max_parts: Sequence[UsagePart] = (),
) -> HoldRequest:
    return HoldRequest(job, "m", ServiceClass.DEFAULT, gateway, deadline, max_usage, idempotency, max_parts)


async def hold(billing: Billing, who: Principal, requests: Sequence[HoldRequest]) -> None:
    """Hold credit and wait for the batched job write."""
    await billing.reserve(who, requests)
    await billing.flush_jobs([each.job for each in requests])


async def check_idle(stores: BillingStores, organisation: str, paid_in: int, jobs: list[str]) -> int:
    """Check an idle system: no holds, and account, jobs and ledger agree. Return the amount spent."""
    balance = await stores.balances.find(organisation)
    assert balance is not None
    found = await stores.jobs.find(jobs)
    assert {job.state for job in found.values()} <= {JobState.SETTLED}
    assert balance.held == {}
    assert balance.available >= 0
    assert balance.available + balance.spent == paid_in
    costs = {job.id: job.cost or 0 for job in found.values()}
    assert all(costs[job.id] <= job.hold for job in found.values())
    assert balance.spent == sum(costs.values())
    assert sum(month.get("organisation", 0) for month in balance.used.values()) == balance.spent
    return balance.spent
