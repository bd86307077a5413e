"""Usage reports in MongoDB read rollups where hours are whole; all results are in `money/test_usage_reports.py`."""

from __future__ import annotations

import pytest

from auth_billing.money.usage_reports import UsageFilter
from auth_billing.money.usage_rollups import HOUR
from auth_billing.store.connection import StoreConnection
from auth_billing.store.usage_aggregation import TOTALS
from auth_billing.store.usage_reports import MongoUsageReports

pytestmark = pytest.mark.store


async def test_only_buckets_of_whole_hours_read_the_rollups(connection: StoreConnection) -> None:
    """There is a rollup and no job, so the rows show which of them a report reads."""
    rollup = {"_id": "rollup", "organisation": "org-1", "at": HOUR, **dict.fromkeys(TOTALS, 2)}
    await connection.durable("usage_hours").insert_one(rollup)
    await connection.durable("usage_spans").insert_one({"_id": "org-1", "since": HOUR, "until": 2 * HOUR})
    reports = MongoUsageReports(connection)
    hourly = await reports.rows(UsageFilter("org-1", 0, 3 * HOUR), HOUR, [], 9)
    assert [(row.start, row.requests) for row in hourly] == [(HOUR, 2)]
    assert await reports.rows(UsageFilter("org-1", 0, 3 * HOUR), 60, [], 9) == []
    assert await reports.rows(UsageFilter("org-1", HOUR + 1, 3 * HOUR), HOUR, [], 9) == []  # no whole hour is left
    assert await reports.count(UsageFilter("org-1", 0, 3 * HOUR), 9) == 0
