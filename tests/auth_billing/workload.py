"""Shared by the tests of money: principals, jobs, and the invariants of accounts, jobs and ledger."""

from __future__ import annotations

from collections.abc import Sequence

from auth_billing.access.principal import Principal
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import BillingStores, JobState, SettlementSource, UsageStatement
from auth_billing.money.holds import HoldRequest
from router.messages import Outcome, ServiceClass, Usage

ORGANISATION = "org-1"
HELD = 1_000
"""Nano-USD that `hold_request` holds at the price `flat_price`: 100 prompt tokens at 2, 80 generated tokens at 10."""
MAX_USAGE = Usage(prompt_tokens=100, completion_tokens=80)
NOW = 1_700_000_000.0
USED = Usage(prompt_tokens=100, completion_tokens=7, cached_tokens=40)
COST = 60 * 2 + 40 * 1 + 7 * 10
"""Nano-USD that `USED` costs at the price `flat_price`."""


def receipt(usage: Usage = USED, outcome: Outcome = Outcome.FINISHED) -> UsageStatement:
    return UsageStatement(usage, outcome, SettlementSource.RECEIPT)


def principal(organisation: str = ORGANISATION, project: str = "proj_1", key: str = "key1") -> Principal:
    return Principal(key_id=key, tenant=organisation, cache_salt="", project=project, user="user-1")


def hold_request(
    job: str,
    *,
    gateway: str = "gateway-1",
    deadline: float = 1e10,
    max_usage: Usage = MAX_USAGE,
    idempotency: str = "",
) -> HoldRequest:
    return HoldRequest(job, "m", ServiceClass.DEFAULT, gateway, deadline, max_usage, idempotency)


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
