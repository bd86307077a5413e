"""MongoDB queries of all organisations' usage for the operator, from the rollups in `usage_hours` and `usage_spans`."""

from __future__ import annotations

from typing import Any

import pymongo

from auth_billing.money.installation_usage import InstallationUsageRow
from auth_billing.store import usage_rollups
from auth_billing.store.connection import StoreConnection
from auth_billing.store.usage_aggregation import REPORT_TIMEOUT

DAY_SECONDS = 86_400

_SUMS = ("requests", "input_tokens", "cached_tokens", "output_tokens", "cost")


class MongoInstallationUsage:
    """MongoDB implementation of `money.installation_usage.InstallationUsage`. Methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._hours = connection.durable(usage_rollups.COLLECTION)
        self._spans = connection.durable(usage_rollups.SPANS)

    async def rows(self, since: int, until: int, limit: int) -> list[InstallationUsageRow]:
        """Return the settled usage of all organisations from `since` until before `until` (Unix seconds).

        One row per day, organisation and model, sorted by these; at most `limit` rows.
        """
        day = {"$toLong": {"$floor": {"$divide": ["$at", DAY_SECONDS]}}}
        key = {"day": day, "organisation": "$organisation", "model": "$model"}
        pipeline: list[dict[str, Any]] = [
            {"$match": {"at": {"$gte": since, "$lt": until}}},
            {"$group": {"_id": key, **{name: {"$sum": f"${name}"} for name in _SUMS}}},
            {"$sort": {f"_id.{name}": 1 for name in key}},
            {"$limit": limit},
        ]
        with pymongo.timeout(REPORT_TIMEOUT):
            return [_row(document) async for document in self._hours.aggregate(pipeline)]

    async def complete_until(self) -> int | None:
        """Return until when (Unix seconds) every organisation's usage is rolled up and so reported; `None`: none is."""
        first = await self._spans.find_one({}, {"until": 1}, sort=[("until", 1)])
        return None if first is None else int(first["until"])


def _row(document: dict[str, Any]) -> InstallationUsageRow:
    key = document["_id"]
    start, sums = int(key["day"]) * DAY_SECONDS, [int(document[name]) for name in _SUMS]
    return InstallationUsageRow(start, str(key["organisation"]), str(key["model"]), *sums)
