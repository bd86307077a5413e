"""Usage added up by MongoDB itself, from the documents that `store/jobs.py` describes. Integers stay integers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pymongo

from auth_billing.money.books import JobRecord, JobState, Source
from auth_billing.money.usage_reports import EMBEDDING_JOBS, Dimension, Kind, UsageFilter, UsageRow
from auth_billing.store.connection import StoreConnection, translated_errors
from auth_billing.store.jobs import COLLECTION, job_from_document

REPORT_SECONDS = 30.0
"""A report reads every job that it is about; the embedded store takes up to a millisecond for each."""
BATCH = 500

_FRESH = {"$subtract": ["$final.prompt_tokens", "$final.cached_tokens"]}
_SUMS: dict[str, Any] = {
    "requests": 1,
    "input_tokens": "$final.prompt_tokens",
    "cached_tokens": "$final.cached_tokens",
    "output_tokens": "$final.completion_tokens",
    "cost": "$cost",
    "input_cost": {"$multiply": [_FRESH, "$price.input"]},
    "cached_cost": {"$multiply": ["$final.cached_tokens", "$price.cached_input"]},
    "output_cost": {"$multiply": ["$final.completion_tokens", "$price.output"]},
}


class MongoUsageReports:
    """Implements `usage_reports.UsageReports`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._jobs = connection.durable(COLLECTION)

    async def rows(self, wanted: UsageFilter, width: int, by: Sequence[Dimension], limit: int) -> list[UsageRow]:
        """One row for each bucket of `width` seconds and each group in it, in order, `limit` of them at most."""
        bucket = {"$toLong": {"$floor": {"$divide": ["$final.at", width]}}}
        key = {"bucket": bucket, **{each.value: f"${each.value}" for each in by}}
        pipeline: list[dict[str, Any]] = [
            {"$match": _filter(wanted)},
            {"$group": {"_id": key, **{name: {"$sum": value} for name, value in _SUMS.items()}}},
            {"$sort": {f"_id.{name}": 1 for name in key}},
            {"$limit": limit},
        ]
        with translated_errors(), pymongo.timeout(REPORT_SECONDS):
            return [_row(document, width, by) async for document in self._jobs.aggregate(pipeline)]

    async def count(self, wanted: UsageFilter, limit: int) -> int:
        """How many jobs there are, counted up to `limit`."""
        with translated_errors(), pymongo.timeout(REPORT_SECONDS):
            return int(await self._jobs.count_documents(_filter(wanted), limit=limit))

    async def jobs(self, wanted: UsageFilter) -> AsyncIterator[JobRecord]:
        """The jobs themselves, in the order in which they were settled."""
        found = self._jobs.find(_filter(wanted)).sort([("final.at", 1), ("_id", 1)])
        while True:
            with translated_errors(), pymongo.timeout(REPORT_SECONDS):
                documents = await found.to_list(BATCH)
            if not documents:
                return
            for document in documents:
                yield job_from_document(document)


def _filter(wanted: UsageFilter) -> dict[str, Any]:
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


def _row(document: dict[str, Any], width: int, by: Sequence[Dimension]) -> UsageRow:
    key = document["_id"]
    group = {each: str(key.get(each.value, "")) for each in by}
    return UsageRow(int(key["bucket"]) * width, group, **{name: int(document[name]) for name in _SUMS})
