"""Billing records: what a charge makes of a job, which budgets a job counts against, and which holds are leases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auth_billing.money.billing_records import (
    Balance,
    Charge,
    FinalUsage,
    Hold,
    JobState,
    SettlementSource,
    UsageStatement,
)
from router.messages import Outcome, Usage
from tests.auth_billing.money.test_usage_reports import job

USED = Usage(prompt_tokens=10, completion_tokens=3)
FINAL = FinalUsage(USED, Outcome.FINISHED, SettlementSource.RECEIPT, 5.0)


def test_a_charged_job_is_settling_with_its_cost() -> None:
    held = replace(job(1, at=1.0, usage=USED), state=JobState.HELD, cost=None, final=None)
    charged = Charge(held, 7, FINAL).charged
    assert (charged.state, charged.cost, charged.final) == (JobState.SETTLING, 7, FINAL)
    assert replace(charged, state=JobState.HELD, cost=None, final=None) == held


@pytest.mark.parametrize(
    ("usage", "outcome", "agrees"),
    [
        (USED, Outcome.FINISHED, True),
        (USED, Outcome.CANCELLED, False),
        (Usage(prompt_tokens=10, completion_tokens=2), Outcome.FINISHED, False),
    ],
)
def test_statements_agree_on_usage_and_outcome_whatever_their_source(
    usage: Usage, outcome: Outcome, agrees: bool
) -> None:
    assert FINAL.agrees(UsageStatement(usage, outcome, SettlementSource.SWEPT)) is agrees


def test_a_job_counts_against_the_budgets_of_its_organisation_project_and_key() -> None:
    counted = replace(job(1, at=1.0, usage=USED), project="proj_1", key="key1")
    assert counted.budgets == ("organisation", "project:proj_1", "key:key1")
    assert replace(counted, project="", key="").budgets == ("organisation",)
    assert Hold(1, "2026-11", "", "key1").budgets == ("organisation", "key:key1")


def test_leases_are_the_holds_of_gateways() -> None:
    lease = Hold(5, "2026-11", "", "", gateway="gateway-1", at=1.0)
    balance = Balance("org-1", 0, 0, held={"job-1": Hold(1, "2026-11", "", ""), "lease-1": lease})
    assert balance.leases == {"lease-1": lease}
