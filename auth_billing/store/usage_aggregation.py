"""Aggregation stages and expressions that usage reports and rollups share. All totals are integers."""

from __future__ import annotations

from typing import Any

from auth_billing.money.billing_records import JobState, SettlementSource
from auth_billing.money.usage_reports import EMBEDDING_JOBS, UsageFilter, UsageKind

KIND = "kind"
"""The field of a rollup with the kind of request; a job's kind follows from its id."""
REPORT_TIMEOUT = 30.0
"""Seconds for one query: a report reads each of its jobs, which takes the embedded store up to a millisecond each."""

_UNCACHED_TOKENS = {"$subtract": ["$final.prompt_tokens", "$final.cached_tokens"]}
TOTALS: dict[str, Any] = {
    "requests": 1,
    "input_tokens": "$final.prompt_tokens",
    "cached_tokens": "$final.cached_tokens",
    "output_tokens": "$final.completion_tokens",
    "cost": "$cost",
    "input_cost": {"$multiply": [_UNCACHED_TOKENS, "$price.input"]},
    "cached_cost": {"$multiply": ["$final.cached_tokens", "$price.cached_input"]},
    "output_cost": {"$multiply": ["$final.completion_tokens", "$price.output"]},
}
"""Expressions over a job's document, by the field of `UsageRow` that is their sum."""


def job_stages(selection: UsageFilter) -> list[dict[str, Any]]:
    """Return the aggregation stages that select the jobs of a report: settled ones that were not voided.

    The time has its own stage, because the embedded store uses an index for a range only if it covers the whole
    condition, and scans the collection otherwise.
    """
    matched: dict[str, Any] = {
        "state": JobState.SETTLED.value,
        "final.source": {"$ne": SettlementSource.VOID.value},
        **_one_of(selection),
    }
    embeddings = {"$gte": EMBEDDING_JOBS, "$lt": EMBEDDING_JOBS[:-1] + chr(ord(EMBEDDING_JOBS[-1]) + 1)}
    if selection.kind is UsageKind.EMBEDDINGS:
        matched["_id"] = embeddings
    elif selection.kind is UsageKind.COMPLETIONS:
        matched["_id"] = {"$not": embeddings}
    return [{"$match": _during(selection, "final.at")}, {"$match": matched}]


def rollup_stages(selection: UsageFilter) -> list[dict[str, Any]]:
    """Return the aggregation stages that select the hourly rollups of a report on whole hours (`usage_rollups.py`)."""
    matched = _one_of(selection) if selection.kind is None else _one_of(selection) | {KIND: selection.kind.value}
    return [{"$match": _during(selection, "at")}, {"$match": matched}]


def _during(selection: UsageFilter, at: str) -> dict[str, Any]:
    return {"organisation": selection.organisation, at: {"$gte": selection.since, "$lt": selection.until}}


def _one_of(selection: UsageFilter) -> dict[str, Any]:
    return {dimension.value: {"$in": list(ids)} for dimension, ids in selection.ids.items() if ids}
