"""Names of budgets and months, and ids that can be part of a field's path in the store."""

from __future__ import annotations

import pytest

from auth_billing.money.holds import budget_names, check_id, key_budget, month_of, project_budget


def test_a_job_counts_against_every_budget_that_it_has() -> None:
    assert list(budget_names("proj_1", "key1")) == ["organisation", project_budget("proj_1"), key_budget("key1")]
    assert list(budget_names("", "")) == ["organisation"]


@pytest.mark.parametrize(
    ("at", "month"), [(0.0, "1970-01"), (1_793_491_199.9, "2026-10"), (1_793_491_200.0, "2026-11")]
)
def test_a_month_begins_at_midnight_utc(at: float, month: str) -> None:
    assert month_of(at) == month


@pytest.mark.parametrize("id", ["", "a.b", "$set", "a b", "é", "x" * 129, "job\n"])
def test_ids_that_would_change_a_path_in_the_store_are_refused(id: str) -> None:
    with pytest.raises(ValueError, match="letters, digits"):
        check_id(id)


def test_ids_of_jobs_are_accepted() -> None:
    assert check_id("chatcmpl-0_A9") == "chatcmpl-0_A9"
