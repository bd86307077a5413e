"""Which documents of `store/jobs.py` count in a report, and what of them is added up, by MongoDB itself. Integers stay
integers.
"""

from __future__ import annotations

from typing import Any

from auth_billing.money.books import JobState, Source
from auth_billing.money.usage_reports import EMBEDDING_JOBS, Kind, UsageFilter

KIND = "kind"
"""The field of an hour that says what was asked for; of a job its id does."""
REPORT_SECONDS = 30.0
"""A report reads every job that it is about; the embedded store takes up to a millisecond for each."""

_FRESH = {"$subtract": ["$final.prompt_tokens", "$final.cached_tokens"]}
SUMS: dict[str, Any] = {
    "requests": 1,
    "input_tokens": "$final.prompt_tokens",
    "cached_tokens": "$final.cached_tokens",
    "output_tokens": "$final.completion_tokens",
    "cost": "$cost",
    "input_cost": {"$multiply": [_FRESH, "$price.input"]},
    "cached_cost": {"$multiply": ["$final.cached_tokens", "$price.cached_input"]},
    "output_cost": {"$multiply": ["$final.completion_tokens", "$price.output"]},
}


def jobs_of(wanted: UsageFilter) -> list[dict[str, Any]]:
    """Stages that find the jobs of a report.

    The time has a stage of its own: the embedded store uses an index for a range only where the index covers the whole
    condition, and reads everything otherwise.
    """
    matched: dict[str, Any] = {
        "state": JobState.SETTLED.value,
        "final.source": {"$ne": Source.VOID.value},
        **_one_of(wanted),
    }
    embeddings = {"$gte": EMBEDDING_JOBS, "$lt": EMBEDDING_JOBS[:-1] + chr(ord(EMBEDDING_JOBS[-1]) + 1)}
    if wanted.kind is Kind.EMBEDDINGS:
        matched["_id"] = embeddings
    elif wanted.kind is Kind.COMPLETIONS:
        matched["_id"] = {"$not": embeddings}
    return [{"$match": _during(wanted, "final.at")}, {"$match": matched}]


def hours_of(wanted: UsageFilter) -> list[dict[str, Any]]:
    """Stages that find the hours of a report on whole hours (`usage_hours.py`)."""
    matched = _one_of(wanted) if wanted.kind is None else _one_of(wanted) | {KIND: wanted.kind.value}
    return [{"$match": _during(wanted, "at")}, {"$match": matched}]


def _during(wanted: UsageFilter, at: str) -> dict[str, Any]:
    return {"organisation": wanted.organisation, at: {"$gte": wanted.since, "$lt": wanted.until}}


def _one_of(wanted: UsageFilter) -> dict[str, Any]:
    return {dimension.value: {"$in": list(ids)} for dimension, ids in wanted.only.items() if ids}
