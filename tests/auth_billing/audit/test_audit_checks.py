"""The audit's checks: each passes consistent records and names one inconsistency; the auditor applies them together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auth_billing.audit.audit_checks import (
    check_account,
    check_entry,
    check_entry_of_job,
    check_hold_of_job,
    check_holds,
    check_job,
    check_job_of_entry,
    check_leases,
    check_ledger_sums,
    check_pending_credit,
    check_usage_of_job,
)
from auth_billing.audit.audit_records import Check, LedgerSums, RawLedgerEntry
from auth_billing.money.billing_records import Balance, Hold, JobRecord, JobState
from auth_billing.prices.pricing import Price
from router.messages import ReportedUsage, Usage, UsagePart
from router.timings import Timings
from router.usage_arithmetic import JobUsage
from tests.auth_billing.money.test_usage_reports import job
from tests.contract.examples import msgspec_replace

NOW = 1_000_000.0
TIMINGS = Timings()
OVERDUE_AFTER = TIMINGS.settlement_overdue_after
USED = Usage(prompt_tokens=10, completion_tokens=3)
SETTLED = replace(job(1, at=NOW - 2 * OVERDUE_AFTER, usage=USED), deadline=NOW, hold=10**18)
HELD = replace(SETTLED, state=JobState.HELD, cost=None, final=None, created=NOW - 2 * TIMINGS.missing_hold_grace)
ORGANISATION = SETTLED.organisation
HOLD = Hold(HELD.hold, "2026-11", "", "")
BALANCE = Balance(
    ORGANISATION, 5, 7, {HELD.id: HOLD}, used={"2026-11": {"organisation": HELD.hold + 7}}, credited=12 + HELD.hold
)
ENTRY = RawLedgerEntry(
    f"{SETTLED.id}:settle:0",
    ORGANISATION,
    f"customer:{ORGANISATION}",
    "revenue",
    SETTLED.cost,
    "settle",
    SETTLED.id,
    USED,
    SETTLED.price.version,
)


def checks(found: object) -> set[Check]:
    return {each.check for each in found}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "violated"),
    [
        ({}, set()),
        ({"available": -1, "spent": 13}, {Check.NOT_NEGATIVE}),
        ({"available": 6}, {Check.ACCOUNT_ADDS_UP}),
        ({"used": {"2026-11": {"organisation": HELD.hold + 8}}}, {Check.BUDGETS_ADD_UP}),
        ({"used": {"2026-11": {"organisation": HELD.hold - 1}}}, {Check.BUDGETS_ADD_UP}),
    ],
)
def test_an_account_adds_up(change: dict[str, Any], violated: set[Check]) -> None:
    assert checks(check_account(replace(BALANCE, **change))) == violated


def test_a_hold_is_that_of_an_open_job_of_the_same_organisation_and_amount() -> None:
    assert not checks(check_holds(BALANCE, {HELD.id: HELD}))
    assert checks(check_holds(BALANCE, {})) == {Check.HOLD_HAS_JOB}
    assert checks(check_holds(BALANCE, {HELD.id: SETTLED})) == {Check.HOLD_HAS_JOB}
    assert checks(check_holds(BALANCE, {HELD.id: replace(HELD, hold=1)})) == {Check.HOLD_IS_JOBS}
    lease = replace(BALANCE, held={"lease-1": replace(HOLD, gateway="gateway-1", at=NOW)})
    assert not checks(check_holds(lease, {}))


def test_a_lease_is_used_or_released_in_time() -> None:
    lease = replace(BALANCE, held={"lease-1": replace(HOLD, gateway="gateway-1", at=NOW)})
    assert not checks(check_leases(lease, NOW + OVERDUE_AFTER, TIMINGS))
    assert checks(check_leases(lease, NOW + OVERDUE_AFTER + 1, TIMINGS)) == {Check.LEASE_IN_TIME}


def test_what_was_spent_is_in_the_ledger_or_on_its_way() -> None:
    sums = LedgerSums(settled=7, credits=0, credited=BALANCE.credited, oldest_waiting=None)
    assert not checks(check_ledger_sums(BALANCE, sums, 0, BALANCE))
    assert not checks(check_ledger_sums(BALANCE, replace(sums, settled=4), 3, BALANCE))
    assert checks(check_ledger_sums(BALANCE, replace(sums, settled=4), 2, BALANCE)) == {Check.SPENT_IS_LEDGER}
    assert checks(check_ledger_sums(BALANCE, replace(sums, settled=8), 0, BALANCE)) == {Check.SPENT_IS_LEDGER}
    assert checks(check_ledger_sums(BALANCE, replace(sums, credits=1), 0, BALANCE)) == {Check.CREDIT_IS_LEDGER}


def test_credit_reaches_the_account_in_time() -> None:
    sums, due = LedgerSums(0, 0, 0, oldest_waiting=NOW), NOW + TIMINGS.credit_overdue_after
    assert not checks(check_pending_credit(ORGANISATION, sums, due, TIMINGS))
    assert checks(check_pending_credit(ORGANISATION, sums, due + 1, TIMINGS)) == {Check.CREDIT_TAKEN_IN}
    assert not checks(check_pending_credit(ORGANISATION, replace(sums, oldest_waiting=None), NOW + 1e9, TIMINGS))


def test_a_job_costs_its_price_and_at_most_its_hold_and_is_settled_in_time() -> None:
    assert SETTLED.cost
    assert not checks(check_job(SETTLED, NOW + 1e9, TIMINGS))
    assert checks(check_job(replace(SETTLED, cost=SETTLED.cost + 1), NOW, TIMINGS)) == {Check.COST_IS_PRICE}
    assert not checks(check_job(replace(SETTLED, cost=5, hold=5), NOW, TIMINGS))
    assert checks(check_job(replace(SETTLED, cost=None), NOW, TIMINGS)) == {Check.READABLE}
    assert not checks(check_job(HELD, NOW + OVERDUE_AFTER, TIMINGS))
    assert checks(check_job(HELD, NOW + OVERDUE_AFTER + 1, TIMINGS)) == {Check.HOLD_IN_TIME}


def test_a_running_job_has_its_hold_unless_it_is_young() -> None:
    empty = replace(BALANCE, held={})
    assert not checks(check_hold_of_job(HELD, BALANCE, NOW, TIMINGS))
    assert checks(check_hold_of_job(HELD, empty, NOW, TIMINGS)) == {Check.JOB_HAS_HOLD}
    assert checks(check_hold_of_job(HELD, None, NOW, TIMINGS)) == {Check.JOB_HAS_HOLD}
    assert not checks(check_hold_of_job(replace(HELD, created=NOW), empty, NOW, TIMINGS))
    assert not checks(check_hold_of_job(SETTLED, empty, NOW, TIMINGS))


def test_a_job_and_its_ledger_entry_agree() -> None:
    assert not checks(check_entry_of_job(SETTLED, ENTRY))
    assert checks(check_entry_of_job(SETTLED, None)) == {Check.JOB_IN_LEDGER}
    assert not checks(check_entry_of_job(replace(SETTLED, cost=0), None))
    assert checks(check_entry_of_job(HELD, ENTRY)) == {Check.LEDGER_IS_JOBS}
    for change in ({"amount": 1}, {"usage": None}, {"price_version": 99}, {"organisation": "org-x"}):
        assert checks(check_entry_of_job(SETTLED, replace(ENTRY, **change))) == {Check.LEDGER_IS_JOBS}


def test_a_finished_job_is_charged_no_more_than_its_workers_recorded() -> None:
    assert not checks(check_usage_of_job(SETTLED, {"a": JobUsage(USED)}, NOW, TIMINGS))
    one, two = (JobUsage(Usage(prompt_tokens=10, completion_tokens=tokens)) for tokens in (1, 2))
    assert not checks(check_usage_of_job(SETTLED, {"a": one, "b": two}, NOW, TIMINGS))  # two attempts
    assert checks(check_usage_of_job(SETTLED, {"a": one}, NOW, TIMINGS)) == {Check.WORKED}
    assert checks(check_usage_of_job(SETTLED, {}, NOW, TIMINGS)) == {Check.WORKED}
    assert SETTLED.final is not None
    assert not checks(check_usage_of_job(SETTLED, {}, SETTLED.final.at, TIMINGS))  # the record may still arrive


@pytest.mark.parametrize(
    ("change", "violated"),
    [
        ({}, set()),
        ({"amount": 0}, {Check.ROW_BALANCES}),
        ({"amount": True}, {Check.ROW_BALANCES}),
        ({"amount": 1.5}, {Check.ROW_BALANCES}),
        ({"credit": "cash"}, {Check.ROW_BALANCES}),
        ({"id": f"{SETTLED.id}:settle:1"}, {Check.SETTLED_ONCE}),
        ({"kind": "topup"}, {Check.ROW_BALANCES}),
    ],
)
def test_an_entry_moves_a_positive_amount_between_the_accounts_of_its_kind(
    change: dict[str, Any], violated: set[Check]
) -> None:
    assert checks(check_entry(replace(ENTRY, **change))) == violated


def test_the_job_of_an_entry_exists() -> None:
    assert not checks(check_job_of_entry(ENTRY, {SETTLED.id: SETTLED}))
    assert checks(check_job_of_entry(ENTRY, {})) == {Check.ROW_HAS_JOB}
    assert checks(check_job_of_entry(replace(ENTRY, organisation="org-x"), {SETTLED.id: SETTLED})) == {
        Check.ROW_HAS_JOB
    }
    assert not checks(check_job_of_entry(replace(ENTRY, kind="topup", job=None), {}))


PARTS = (
    UsagePart(model="painter", usage=Usage(prompt_tokens=0, units={"512x512": 2})),
    UsagePart(model="tool.free", usage=Usage(prompt_tokens=0, units={"call": 1})),
)


def _with_parts(**changes: Any) -> JobRecord:
    assert SETTLED.final is not None
    assert SETTLED.cost is not None
    final = replace(SETTLED.final, **({"parts": PARTS, "part_costs": (600, 0)} | changes))
    prices = {"painter": Price(0, 0, 0, 1, units={"512x512": 300}), "tool.free": Price(0, 0, 0, 1)}
    return replace(SETTLED, cost=SETTLED.cost + 600, part_prices=prices, final=final)


def test_parts_cost_their_prices_and_are_in_the_ledger_and_in_usage_records() -> None:
    job = _with_parts()
    assert not checks(check_job(job, NOW, TIMINGS))
    assert checks(check_job(replace(job, cost=SETTLED.cost), NOW, TIMINGS)) == {Check.COST_IS_PRICE}
    assert checks(check_job(_with_parts(part_costs=(599, 1)), NOW, TIMINGS)) == {Check.COST_IS_PRICE}
    entry = replace(ENTRY, amount=job.cost, parts=PARTS)
    assert not checks(check_entry_of_job(job, entry))
    assert checks(check_entry_of_job(job, replace(entry, parts=PARTS[:1]))) == {Check.LEDGER_IS_JOBS}
    assert not checks(check_usage_of_job(job, {"a": JobUsage(USED, PARTS)}, NOW, TIMINGS))
    assert checks(check_usage_of_job(job, {"a": JobUsage(USED, PARTS[:1])}, NOW, TIMINGS)) == {Check.WORKED}


def test_checks_of_moderation_count_although_no_usage_record_of_the_job_has_them() -> None:
    moderated = UsagePart(model="painter", usage=Usage(prompt_tokens=0, units={"512x512": 1}))
    drawn = UsagePart(model="painter", usage=Usage(prompt_tokens=0, units={"512x512": 1}))
    for checked, found in (((moderated,), set()), ((), {Check.WORKED})):
        job = _with_parts(reported=ReportedUsage(attempt="a", usage=USED, checks=checked))
        recorded = {"a": JobUsage(USED, (drawn, PARTS[1]))}
        assert checks(check_usage_of_job(job, recorded, NOW, TIMINGS)) == found


def test_what_a_worker_reported_counts_if_its_usage_record_was_lost() -> None:
    reported = ReportedUsage(attempt="a", usage=USED, parts=PARTS)
    job = _with_parts(reported=reported)
    assert not checks(check_usage_of_job(job, {}, NOW, TIMINGS))
    for less in (
        msgspec_replace(reported, usage=Usage(prompt_tokens=10, completion_tokens=2)),
        msgspec_replace(reported, usage=Usage(prompt_tokens=9, completion_tokens=3)),
        msgspec_replace(reported, parts=PARTS[:1]),
    ):
        assert checks(check_usage_of_job(_with_parts(reported=less), {}, NOW, TIMINGS)) == {Check.WORKED}


def test_what_a_worker_reported_does_not_count_beside_its_usage_record() -> None:
    job = _with_parts(reported=ReportedUsage(attempt="a", usage=USED, parts=PARTS))
    half = JobUsage(Usage(prompt_tokens=10, completion_tokens=2), PARTS)
    assert checks(check_usage_of_job(job, {"a": half}, NOW, TIMINGS)) == {Check.WORKED}
