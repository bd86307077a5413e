"""Usage by the hour in MongoDB: `usage_hours {_id, organisation, at, project, ..., requests, ...}`, insert-only.

usage_hours {
    _id: "<organisation> <at> <...>",    what it is the sum of: storing it twice is storing it once
    organisation: str,
    at: int,                             the hour's beginning, Unix seconds
    project, user, key, model, service_class, kind: str,
    requests, input_tokens, ..., cost, input_cost, ...: int     as in `usage_reports.UsageRow`
}
usage_spans {_id: organisation, since, until: int}              `usage_hours.Span`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pymongo
from pymongo.errors import DuplicateKeyError

from auth_billing.money.books import JobState
from auth_billing.money.usage_hours import HOUR, Span
from auth_billing.money.usage_reports import EMBEDDING_JOBS, Dimension, Kind, UsageFilter
from auth_billing.people.organisation_records import Organisation
from auth_billing.store import accounts, jobs
from auth_billing.store.connection import StoreConnection, translated_errors
from auth_billing.store.insertion import insert_new
from auth_billing.store.usage_sums import KIND, REPORT_SECONDS, SUMS, jobs_of

COLLECTION = "usage_hours"
SPANS = "usage_spans"

_IS_EMBEDDING = {"$eq": [{"$substrBytes": ["$_id", 0, len(EMBEDDING_JOBS)]}, EMBEDDING_JOBS]}
_GROUP = {each.value: f"${each.value}" for each in Dimension} | {
    KIND: {"$cond": [_IS_EMBEDDING, Kind.EMBEDDINGS.value, Kind.COMPLETIONS.value]}
}


class MongoHourStore:
    """Implements `usage_hours.HourStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._hours = connection.durable(COLLECTION)
        self._spans = connection.durable(SPANS)
        self._jobs = connection.durable(jobs.COLLECTION)
        self._organisations = connection.durable(accounts.ORGANISATIONS)

    async def organisations(self) -> Sequence[Organisation]:
        """All of them."""
        with translated_errors():
            return [
                Organisation(each["_id"], each["name"], each["created"]) async for each in self._organisations.find()
            ]

    async def is_settling(self, before: float) -> bool:
        """Whether the settlement of a job began before that time and is not finished."""
        unfinished = {"state": JobState.SETTLING.value, "final.at": {"$lt": before}}
        with translated_errors():
            return await self._jobs.find_one(unfinished, {"_id": 1}) is not None

    async def span(self, organisation: str) -> Span | None:
        """What is added up; `None`: nobody has begun."""
        with translated_errors():
            found = await self._spans.find_one({"_id": organisation})
        return None if found is None else Span(int(found["since"]), int(found["until"]))

    async def begin(self, organisation: str, at: int) -> None:
        """The first hour to be added up, unless somebody has said so before."""
        with translated_errors():
            try:
                await self._spans.insert_one({"_id": organisation, "since": at, "until": at})
            except DuplicateKeyError:
                return

    async def add_up(self, organisation: str, hour: int) -> None:
        """Store the sums of the hour that begins at `hour`, and let the span, if it ends there, end an hour later."""
        pipeline: list[dict[str, Any]] = [
            *jobs_of(UsageFilter(organisation, hour, hour + HOUR)),
            {"$group": {"_id": _GROUP, **{name: {"$sum": value} for name, value in SUMS.items()}}},
        ]
        with translated_errors(), pymongo.timeout(REPORT_SECONDS):
            rows = [_document(organisation, hour, row) async for row in self._jobs.aggregate(pipeline)]
            if rows:
                await insert_new(self._hours, rows)
            await self._spans.update_one({"_id": organisation, "until": hour}, {"$set": {"until": hour + HOUR}})


def _document(organisation: str, hour: int, row: Mapping[str, Any]) -> dict[str, Any]:
    group, sums = row["_id"], {name: row[name] for name in SUMS}
    name = " ".join([organisation, str(hour), *group.values()])
    return {"_id": name, "organisation": organisation, "at": hour, **group, **sums}
