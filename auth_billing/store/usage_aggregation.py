"""MongoDB aggregation stages and expressions that usage reports and rollups share. All totals are integers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from auth_billing.money.billing_records import JobState, SettlementSource
from auth_billing.money.usage_reports import JOB_PREFIXES, Dimension, UsageFilter, UsageKind

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
    "cost": {"$subtract": ["$cost", {"$ifNull": ["$final.part_cost", 0]}]},
    "input_cost": {"$multiply": [_UNCACHED_TOKENS, "$price.input"]},
    "cached_cost": {"$multiply": ["$final.cached_tokens", "$price.cached_input"]},
    "output_cost": {"$multiply": ["$final.completion_tokens", "$price.output"]},
    "units": {"$ifNull": ["$final.unit_count", 0]},
    "unit_cost": {"$ifNull": ["$final.unit_cost", 0]},
}
"""Expressions over a job's document of its answer's usage, by the field of `UsageRow` that is their sum."""
PART_TOTALS: dict[str, Any] = {
    "requests": 0,
    "input_tokens": "$final.parts.prompt_tokens",
    "cached_tokens": "$final.parts.cached_tokens",
    "output_tokens": "$final.parts.completion_tokens",
    **{name: f"$final.parts.{name}" for name in ("cost", "input_cost", "cached_cost", "output_cost", "unit_cost")},
    "units": "$final.parts.unit_count",
}
"""Expressions over the documents of `part_stages`, as in `TOTALS`."""
PART_MODEL = "$final.parts.model"


def job_stages(selection: UsageFilter) -> list[dict[str, Any]]:
    """Return the MongoDB aggregation stages that select the jobs of a usage report: settled ones that were not voided.

    The time has its own stage, because the embedded store uses an index for a range only if it covers the whole
    condition, and scans the collection otherwise.
    """
    return [{"$match": _during(selection, "final.at")}, {"$match": _settled(selection) | _one_of(selection)}]


def part_stages(selection: UsageFilter) -> list[dict[str, Any]]:
    """Return the MongoDB aggregation stages that make one document of each part (a step's usage) of a report's jobs.

    A part is selected by its own model, and by the other dimensions of its job.
    """
    models = selection.ids.get(Dimension.MODEL)
    of_jobs = _one_of(replace(selection, ids={**selection.ids, Dimension.MODEL: []}))
    jobs = _settled(selection) | of_jobs | {"final.part_cost": {"$exists": True}}
    return [
        {"$match": _during(selection, "final.at")},
        {"$match": jobs},
        {"$unwind": "$final.parts"},
        *([{"$match": {PART_MODEL[1:]: {"$in": list(models)}}}] if models else []),
    ]


def _settled(selection: UsageFilter) -> dict[str, Any]:
    matched: dict[str, Any] = {
        "state": JobState.SETTLED.value,
        "final.source": {"$ne": SettlementSource.VOID.value},
    }
    ranges = {
        kind: {"$gte": prefix, "$lt": prefix[:-1] + chr(ord(prefix[-1]) + 1)} for kind, prefix in JOB_PREFIXES.items()
    }
    if selection.kind in ranges:
        matched["_id"] = ranges[selection.kind]
    elif selection.kind is UsageKind.COMPLETIONS:
        matched["$and"] = [{"_id": {"$not": each}} for each in ranges.values()]
    return matched


def rollup_stages(selection: UsageFilter) -> list[dict[str, Any]]:
    """Return the MongoDB aggregation stages that select the hourly rollups of a usage report on whole hours."""
    matched = _one_of(selection) if selection.kind is None else _one_of(selection) | {KIND: selection.kind.value}
    return [{"$match": _during(selection, "at")}, {"$match": matched}]


def _during(selection: UsageFilter, at: str) -> dict[str, Any]:
    return {"organisation": selection.organisation, at: {"$gte": selection.since, "$lt": selection.until}}


def _one_of(selection: UsageFilter) -> dict[str, Any]:
    return {dimension.value: {"$in": list(ids)} for dimension, ids in selection.ids.items() if ids}
