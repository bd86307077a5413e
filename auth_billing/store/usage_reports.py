"""MongoDB queries of usage reports: from rollups for past hours (`usage_rollups.py`), and from jobs for the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import pymongo

from auth_billing.money.billing_records import JobRecord
from auth_billing.money.usage_reports import Dimension, UsageFilter, UsageRow, merge_rows
from auth_billing.money.usage_rollups import HOUR
from auth_billing.store import usage_rollups
from auth_billing.store.connection import StoreConnection
from auth_billing.store.jobs import COLLECTION, job_from_document
from auth_billing.store.usage_aggregation import (
    PART_MODEL,
    PART_TOTALS,
    REPORT_TIMEOUT,
    TOTALS,
    job_stages,
    part_stages,
    rollup_stages,
)

BATCH_SIZE = 500


class _Layout(NamedTuple):
    """The buckets, groups and length of a report; see `UsageReports.rows`."""

    width: int
    by: Sequence[Dimension]
    limit: int


class _Table(NamedTuple):
    """A collection that reports aggregate: expressions of a document's time, of its totals and of its model."""

    documents: Any
    at: str
    totals: Mapping[str, Any]
    model: str = "$model"


class MongoUsageReports:
    """MongoDB implementation of `money.usage_reports.UsageReports`. Read-only; methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._jobs = connection.durable(COLLECTION)
        self._job_table = _Table(self._jobs, "$final.at", TOTALS)
        self._part_table = _Table(self._jobs, "$final.at", PART_TOTALS, PART_MODEL)
        rollups = connection.durable(usage_rollups.COLLECTION)
        self._rollup_table = _Table(rollups, "$at", {name: f"${name}" for name in TOTALS})
        self._rollups = usage_rollups.MongoRollupStore(connection)

    async def rows(self, selection: UsageFilter, width: int, by: Sequence[Dimension], limit: int) -> list[UsageRow]:
        """Return the usage of selected jobs, one row per bucket of `width` seconds and group of the dimensions `by`.

        At most `limit` rows, sorted by bucket and group. If `width` is whole hours, past hours are read from rollups.
        """
        layout = _Layout(width, by, limit)
        span = await self._rollups.span(selection.organisation) if width % HOUR == 0 else None
        if span is None or (hours := span.within(selection.since, selection.until)).since >= hours.until:
            return merge_rows(await asyncio.gather(*self._of_jobs(selection, layout)))[:limit]
        before, after = replace(selection, until=hours.since), replace(selection, since=hours.until)
        whole = rollup_stages(replace(selection, since=hours.since, until=hours.until))
        rests = [self._of_jobs(rest, layout) for rest in (before, after) if rest.since < rest.until]
        periods = [_rows(self._rollup_table, whole, layout), *chain.from_iterable(rests)]
        return merge_rows(await asyncio.gather(*periods))[:limit]

    def _of_jobs(self, selection: UsageFilter, layout: _Layout) -> list[Coroutine[Any, Any, list[UsageRow]]]:
        """Return the queries of jobs' answers and of the parts of their steps."""
        return [
            _rows(self._job_table, job_stages(selection), layout),
            _rows(self._part_table, part_stages(selection), layout),
        ]

    async def count(self, selection: UsageFilter, limit: int) -> int:
        """Return the number of jobs that `selection` matches, or `limit` if there are more."""
        with pymongo.timeout(REPORT_TIMEOUT):
            counted = self._jobs.aggregate([*job_stages(selection), {"$limit": limit}, {"$count": "jobs"}])
            return sum([int(each["jobs"]) async for each in counted])

    async def jobs(self, selection: UsageFilter) -> AsyncIterator[JobRecord]:
        """Iterate over the records of the settled jobs that `selection` matches, in the order of their settlement."""
        found = self._jobs.aggregate([*job_stages(selection), {"$sort": {"final.at": 1, "_id": 1}}])
        while True:
            with pymongo.timeout(REPORT_TIMEOUT):
                documents = await found.to_list(BATCH_SIZE)
            if not documents:
                return
            for document in documents:
                yield job_from_document(document)


async def _rows(table: _Table, stages: Sequence[Mapping[str, Any]], layout: _Layout) -> list[UsageRow]:
    bucket = {"$toLong": {"$floor": {"$divide": [table.at, layout.width]}}}
    fields = {each.value: table.model if each is Dimension.MODEL else f"${each.value}" for each in layout.by}
    key = {"bucket": bucket, **fields}
    pipeline = [
        *stages,
        {"$group": {"_id": key, **{name: {"$sum": value} for name, value in table.totals.items()}}},
        {"$sort": {f"_id.{name}": 1 for name in key}},
        {"$limit": layout.limit},
    ]
    with pymongo.timeout(REPORT_TIMEOUT):
        return [_row(document, layout) async for document in table.documents.aggregate(pipeline)]


def _row(document: dict[str, Any], layout: _Layout) -> UsageRow:
    key = document["_id"]
    group = {each: str(key.get(each.value, "")) for each in layout.by}
    return UsageRow(int(key["bucket"]) * layout.width, group, **{name: int(document[name]) for name in TOTALS})
