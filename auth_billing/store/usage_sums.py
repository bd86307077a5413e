"""Which documents of `store/jobs.py` count in a report, and what of them is added up, by MongoDB itself. Integers stay
integers.
"""

from __future__ import annotations

from typing import Any

from auth_billing.money.books import JobState, Source
from auth_billing.money.usage_reports import EMBEDDING_JOBS, Kind, UsageFilter

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


def matching_jobs(wanted: UsageFilter) -> dict[str, Any]:
    """Which jobs a report is about."""
    matched: dict[str, Any] = {
        "organisation": wanted.organisation,
        "final.at": {"$gte": wanted.since, "$lt": wanted.until},
        "state": JobState.SETTLED.value,
        "final.source": {"$ne": Source.VOID.value},
    }
    matched.update({dimension.value: {"$in": list(ids)} for dimension, ids in wanted.only.items() if ids})
    embeddings = {"$gte": EMBEDDING_JOBS, "$lt": EMBEDDING_JOBS[:-1] + chr(ord(EMBEDDING_JOBS[-1]) + 1)}
    if wanted.kind is Kind.EMBEDDINGS:
        matched["_id"] = embeddings
    elif wanted.kind is Kind.COMPLETIONS:
        matched["_id"] = {"$not": embeddings}
    return matched
