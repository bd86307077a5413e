"""Alerts in MongoDB: stored once, claimed by one process at a time, deleted after two months."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from auth_billing.money.alerts import Alert
from auth_billing.store.alerts import RETENTION, MongoAlertStore
from auth_billing.store.connection import StoreConnection

pytestmark = pytest.mark.store

ALERT = Alert("org-1", "2026-11", "key:key1", 80, 100, 85, 1_795_000_000.0)


async def test_an_alert_is_claimed_by_one_of_many_until_its_claim_ends(connection: StoreConnection) -> None:
    alerts = MongoAlertStore(connection)
    await alerts.add([ALERT, ALERT])
    claims = await asyncio.gather(*(alerts.claim(10.0, 20.0) for _ in range(8)))
    (claimed,) = [each for each in claims if each is not None]
    assert (claimed.alert, claimed.rounds) == (ALERT, 0)
    assert await alerts.claim(20.0, 30.0) is None
    assert await alerts.claim(20.5, 30.0) is not None


async def test_a_postponed_alert_counts_its_rounds_and_a_done_one_is_never_claimed(
    connection: StoreConnection,
) -> None:
    alerts = MongoAlertStore(connection)
    await alerts.add([ALERT])
    await alerts.postpone(ALERT.id, 50.0)
    assert await alerts.claim(40.0, 60.0) is None
    claimed = await alerts.claim(51.0, 60.0)
    assert claimed is not None
    assert claimed.rounds == 1
    await alerts.mark_done(ALERT.id, 55.0)
    await alerts.add([replace(ALERT, amount=99)])  # due again at the next run: it is stored already
    assert await alerts.claim(70.0, 80.0) is None


async def test_an_alert_expires_after_the_retention(connection: StoreConnection) -> None:
    await MongoAlertStore(connection).add([ALERT])
    document = await connection.durable("alerts").find_one({})
    assert document["expires"].replace(tzinfo=UTC) == datetime.fromtimestamp(ALERT.at, UTC) + RETENTION
