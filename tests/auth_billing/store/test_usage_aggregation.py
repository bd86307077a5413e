"""Stages of usage reports and rollups; their results are in `tests/auth_billing/money/test_usage_reports.py`."""

from __future__ import annotations

from dataclasses import fields

import pytest

from auth_billing.money.usage_reports import Dimension, UsageFilter, UsageKind, UsageRow
from auth_billing.store.usage_aggregation import TOTALS, job_stages, rollup_stages

SELECTION = UsageFilter("org-1", 5, 9, {Dimension.MODEL: ["a", "b"], Dimension.USER: []})


def test_every_number_of_a_row_is_totalled() -> None:
    assert [*TOTALS] == [each.name for each in fields(UsageRow) if each.name not in ("start", "group")]


def test_the_time_is_a_stage_of_its_own_that_an_index_covers() -> None:
    assert job_stages(SELECTION)[0] == {"$match": {"organisation": "org-1", "final.at": {"$gte": 5, "$lt": 9}}}
    assert rollup_stages(SELECTION)[0] == {"$match": {"organisation": "org-1", "at": {"$gte": 5, "$lt": 9}}}


def test_jobs_that_are_unsettled_or_void_are_left_out_and_empty_filters_select_all() -> None:
    matched = job_stages(SELECTION)[1]["$match"]
    assert matched == {"state": "settled", "final.source": {"$ne": "void"}, "model": {"$in": ["a", "b"]}}
    assert rollup_stages(SELECTION)[1]["$match"] == {"model": {"$in": ["a", "b"]}}


@pytest.mark.parametrize("kind", list(UsageKind))
def test_a_kind_selects_jobs_by_the_prefix_of_their_ids_and_rollups_by_a_field(kind: UsageKind) -> None:
    selection = UsageFilter("org-1", 5, 9, kind=kind)
    ranges = {
        UsageKind.EMBEDDINGS: {"$gte": "embd-", "$lt": "embd."},
        UsageKind.IMAGES: {"$gte": "img-", "$lt": "img."},
    }
    matched = job_stages(selection)[1]["$match"]
    if kind is UsageKind.COMPLETIONS:
        assert matched["$and"] == [{"_id": {"$not": each}} for each in ranges.values()]
    else:
        assert matched["_id"] == ranges[kind]
    assert rollup_stages(selection)[1]["$match"] == {"kind": kind.value}
