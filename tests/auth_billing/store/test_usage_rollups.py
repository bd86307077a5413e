"""Hourly rollups in MongoDB: stored once, and the span grows by whole hours in order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auth_billing.money.billing_records import Charge, JobState
from auth_billing.money.usage_rollups import HOUR, RollupSpan
from auth_billing.store.connection import StoreConnection
from auth_billing.store.jobs import MongoJobStore
from auth_billing.store.usage_rollups import MongoRollupStore
from router.messages import Usage
from tests.auth_billing.money.test_usage_reports import job

pytestmark = pytest.mark.store


async def test_a_rollup_is_stored_once_with_one_row_per_group(connection: StoreConnection) -> None:
    jobs = [job(number, at=HOUR + 60.0 * number, usage=Usage(prompt_tokens=10 + number)) for number in range(3)]
    store = MongoJobStore(connection)
    await store.insert([replace(each, state=JobState.HELD) for each in jobs])
    await store.charge([Charge(each, each.cost or 0, each.final) for each in jobs if each.final])
    await store.finish([each.id for each in jobs])
    rollups, organisation = MongoRollupStore(connection), jobs[0].organisation
    await rollups.start(organisation, HOUR)
    for _ in range(2):
        await rollups.roll_up(organisation, HOUR)
    rows = [each async for each in connection.durable("usage_hours").find()]
    assert sum(row["requests"] for row in rows) == 3
    assert sum(row["input_tokens"] for row in rows) == 33
    assert {row["at"] for row in rows} == {HOUR}
    assert await rollups.span(organisation) == RollupSpan(HOUR, 2 * HOUR)


async def test_a_span_starts_once_and_grows_only_at_its_end(connection: StoreConnection) -> None:
    rollups = MongoRollupStore(connection)
    assert await rollups.span("org-1") is None
    await rollups.start("org-1", 3 * HOUR)
    await rollups.start("org-1", 5 * HOUR)
    await rollups.roll_up("org-1", 4 * HOUR)  # not the next hour
    assert await rollups.span("org-1") == RollupSpan(3 * HOUR, 3 * HOUR)
    await rollups.roll_up("org-1", 3 * HOUR)
    assert await rollups.span("org-1") == RollupSpan(3 * HOUR, 4 * HOUR)
