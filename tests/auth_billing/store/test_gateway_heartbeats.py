"""Gateway heartbeats in MongoDB and in memory."""

from __future__ import annotations

import asyncio

import pytest

from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import (
    BillingStores,
)
from tests.fakes.billing_stores import price_book

NOW = 1_700_000_000.0


@pytest.fixture
def billing(stores: BillingStores) -> Billing:
    return Billing(stores, price_book(), clock=lambda: NOW)


async def test_heartbeats_are_counted_per_gateway(stores: BillingStores, billing: Billing) -> None:
    for _ in range(3):
        await billing.record_heartbeat("gateway-1")
    await asyncio.gather(*(billing.record_heartbeat("gateway-2") for _ in range(4)))
    assert await stores.heartbeats.counts() == {"gateway-1": 3, "gateway-2": 4}
