"""Usage of all organisations in MongoDB: from rollups, by day, organisation and model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auth_billing.money.installation_usage import InstallationUsageRow
from auth_billing.store.connection import StoreConnection
from auth_billing.store.indexes import create_indexes
from auth_billing.store.installation_usage import MongoInstallationUsage
from auth_billing.store.usage_rollups import COLLECTION, SPANS

pytestmark = pytest.mark.store

DAY = 86_400
SUMS = {"requests": 1, "input_tokens": 20, "cached_tokens": 5, "output_tokens": 3, "cost": 7}
ROW = InstallationUsageRow(10 * DAY, "org-1", "a.b", **SUMS)


async def test_hours_of_all_organisations_are_added_up_by_day(connection: StoreConnection) -> None:
    await create_indexes(connection)
    usage = MongoInstallationUsage(connection)
    assert await usage.complete_until() is None
    hours = [
        (10 * DAY, "org-1", "a.b"),
        (10 * DAY + 3600, "org-1", "a.b"),
        (10 * DAY, "org-2", "a.b"),
        (11 * DAY, "org-1", "c"),
        (12 * DAY, "org-1", "a.b"),
    ]
    documents = [
        {"_id": str(number), "at": at, "organisation": organisation, "model": model, **SUMS}
        for number, (at, organisation, model) in enumerate(hours)
    ]
    await connection.durable(COLLECTION).insert_many(documents)
    spans = [{"_id": "org-1", "since": 0, "until": 12 * DAY}, {"_id": "org-2", "since": 0, "until": 11 * DAY}]
    await connection.durable(SPANS).insert_many(spans)
    twice = InstallationUsageRow(10 * DAY, "org-1", "a.b", 2, 40, 10, 6, 14)
    found = await usage.rows(10 * DAY, 12 * DAY, 10)
    assert found == [twice, replace(ROW, organisation="org-2"), replace(ROW, start=11 * DAY, model="c")]
    assert await usage.rows(10 * DAY, 12 * DAY, 1) == [twice]
    assert await usage.complete_until() == 11 * DAY
