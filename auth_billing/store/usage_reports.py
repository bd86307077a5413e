"""Usage as reports have it: from the sums of hours that are over (`usage_hours.py`), and from jobs for the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pymongo

from auth_billing.money.books import JobRecord
from auth_billing.money.usage_hours import HOUR
from auth_billing.money.usage_reports import Dimension, UsageFilter, UsageRow, added
from auth_billing.store import usage_hours
from auth_billing.store.connection import StoreConnection, translated_errors
from auth_billing.store.jobs import COLLECTION, job_from_document
from auth_billing.store.usage_sums import REPORT_SECONDS, SUMS, hours_of, jobs_of

BATCH = 500


class _Form(NamedTuple):
    """What a report looks like; see `UsageReports.rows`."""

    width: int
    by: Sequence[Dimension]
    limit: int


class _Table(NamedTuple):
    """What is added up: `sums` of its documents, which belong to the time `at`."""

    documents: Any
    at: str
    sums: Mapping[str, Any]


class MongoUsageReports:
    """Implements `usage_reports.UsageReports`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._jobs = connection.durable(COLLECTION)
        self._each = _Table(self._jobs, "$final.at", SUMS)
        self._by_hour = _Table(connection.durable(usage_hours.COLLECTION), "$at", {name: f"${name}" for name in SUMS})
        self._added_up = usage_hours.MongoHourStore(connection)

    async def rows(self, wanted: UsageFilter, width: int, by: Sequence[Dimension], limit: int) -> list[UsageRow]:
        """One row for each bucket of `width` seconds and each group in it, in order, `limit` of them at most."""
        form = _Form(width, by, limit)
        span = await self._added_up.span(wanted.organisation) if width % HOUR == 0 else None
        if span is None or (hours := span.within(wanted.since, wanted.until)).since >= hours.until:
            return await _rows(self._each, jobs_of(wanted), form)
        before, after = replace(wanted, until=hours.since), replace(wanted, since=hours.until)
        whole = hours_of(replace(wanted, since=hours.since, until=hours.until))
        rests = [jobs_of(rest) for rest in (before, after) if rest.since < rest.until]
        parts = [_rows(self._by_hour, whole, form), *(_rows(self._each, rest, form) for rest in rests)]
        return added(await asyncio.gather(*parts))[:limit]

    async def count(self, wanted: UsageFilter, limit: int) -> int:
        """How many jobs there are, counted up to `limit`."""
        with translated_errors(), pymongo.timeout(REPORT_SECONDS):
            counted = self._jobs.aggregate([*jobs_of(wanted), {"$limit": limit}, {"$count": "jobs"}])
            return sum([int(each["jobs"]) async for each in counted])

    async def jobs(self, wanted: UsageFilter) -> AsyncIterator[JobRecord]:
        """The jobs themselves, in the order in which they were settled."""
        found = self._jobs.aggregate([*jobs_of(wanted), {"$sort": {"final.at": 1, "_id": 1}}])
        while True:
            with translated_errors(), pymongo.timeout(REPORT_SECONDS):
                documents = await found.to_list(BATCH)
            if not documents:
                return
            for document in documents:
                yield job_from_document(document)


async def _rows(table: _Table, stages: Sequence[Mapping[str, Any]], form: _Form) -> list[UsageRow]:
    bucket = {"$toLong": {"$floor": {"$divide": [table.at, form.width]}}}
    key = {"bucket": bucket, **{each.value: f"${each.value}" for each in form.by}}
    pipeline = [
        *stages,
        {"$group": {"_id": key, **{name: {"$sum": value} for name, value in table.sums.items()}}},
        {"$sort": {f"_id.{name}": 1 for name in key}},
        {"$limit": form.limit},
    ]
    with translated_errors(), pymongo.timeout(REPORT_SECONDS):
        return [_row(document, form) async for document in table.documents.aggregate(pipeline)]


def _row(document: dict[str, Any], form: _Form) -> UsageRow:
    key = document["_id"]
    group = {each: str(key.get(each.value, "")) for each in form.by}
    return UsageRow(int(key["bucket"]) * form.width, group, **{name: int(document[name]) for name in SUMS})
