"""MongoDB store of hourly usage rollups: aggregates the settled jobs of an hour into rows, which never change.

usage_hours {
    _id: "<organisation> <at> <...>",    the hour and the group, so that storing a rollup again has no effect
    organisation: str,
    at: int,                             the begin of the hour, Unix seconds
    project, user, key, model, service_class, kind: str,
    requests, input_tokens, ..., cost, input_cost, ...: int     as in `usage_reports.UsageRow`
}
usage_spans {_id: organisation, since, until: int}              `usage_rollups.RollupSpan`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pymongo

from auth_billing.money.billing_records import JobState
from auth_billing.money.usage_reports import JOB_PREFIXES, Dimension, UsageFilter, UsageKind
from auth_billing.money.usage_rollups import HOUR, RollupSpan
from auth_billing.people.organisation_records import Organisation
from auth_billing.store import jobs, organisations
from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document
from auth_billing.store.usage_aggregation import (
    KIND,
    PART_MODEL,
    PART_TOTALS,
    REPORT_TIMEOUT,
    TOTALS,
    job_stages,
    part_stages,
)

COLLECTION = "usage_hours"
SPANS = "usage_spans"


def _kind() -> Any:
    """Return the expression of a job's kind, which follows from the prefix of its id."""
    kind: Any = UsageKind.COMPLETIONS.value
    for each, prefix in JOB_PREFIXES.items():
        kind = {"$cond": [{"$eq": [{"$substrBytes": ["$_id", 0, len(prefix)]}, prefix]}, each.value, kind]}
    return kind


_GROUP = {each.value: f"${each.value}" for each in Dimension} | {KIND: _kind()}


class MongoRollupStore:
    """MongoDB implementation of `money.usage_rollups.RollupStore`. Methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._hours = connection.durable(COLLECTION)
        self._spans = connection.durable(SPANS)
        self._jobs = connection.durable(jobs.COLLECTION)
        self._organisations = connection.durable(organisations.ORGANISATIONS)

    async def organisations(self) -> Sequence[Organisation]:
        """Return all organisations of the installation, whose usage is rolled up."""
        return [from_document(Organisation, each) async for each in self._organisations.find()]

    async def is_settling(self, before: float) -> bool:
        """Return whether a settlement begun before `before` (Unix seconds) is unfinished, so usage may be missing."""
        unfinished = {"state": JobState.SETTLING.value, "final.at": {"$lt": before}}
        return await self._jobs.find_one(unfinished, {"_id": 1}) is not None

    async def span(self, organisation: str) -> RollupSpan | None:
        """Return the hours of an organisation that are rolled up; `None` if `start` was never called for it."""
        return await self._spans.find_record(partial(from_document, RollupSpan), {"_id": organisation})

    async def start(self, organisation: str, at: int) -> None:
        """Set the first hour to roll up for an organisation (its begin in Unix seconds), unless one is set."""
        await self._spans.insert_if_absent({"_id": organisation, "since": at, "until": at})

    async def roll_up(self, organisation: str, hour: int) -> None:
        """Aggregate and store the usage of an organisation's jobs settled in the hour from `hour` (Unix seconds).

        The rolled-up span is extended if it ends there. A repetition has no effect.
        """
        selection = UsageFilter(organisation, hour, hour + HOUR)
        answers = [*job_stages(selection), _group(_GROUP, TOTALS)]
        parts = [*part_stages(selection), _group({**_GROUP, Dimension.MODEL.value: PART_MODEL}, PART_TOTALS)]
        with pymongo.timeout(REPORT_TIMEOUT):
            rows = [row for stages in (answers, parts) async for row in self._jobs.aggregate(stages)]
            if rows:
                await self._hours.insert_new(_documents(organisation, hour, rows))
            await self._spans.update_one({"_id": organisation, "until": hour}, {"$set": {"until": hour + HOUR}})


def _group(group: Mapping[str, Any], totals: Mapping[str, Any]) -> dict[str, Any]:
    return {"$group": {"_id": group, **{name: {"$sum": value} for name, value in totals.items()}}}


def _documents(organisation: str, hour: int, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a rollup for each group, with the sums of all rows of the group."""
    documents: dict[str, dict[str, Any]] = {}
    for row in rows:
        group = {name: row["_id"][name] for name in _GROUP}
        id = " ".join([organisation, str(hour), *group.values()])
        document = documents.setdefault(
            id, {"_id": id, "organisation": organisation, "at": hour, **group, **dict.fromkeys(TOTALS, 0)}
        )
        for name in TOTALS:
            document[name] += int(row[name])
    return list(documents.values())
