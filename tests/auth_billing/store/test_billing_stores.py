"""The four MongoDB stores of settlement share one connection."""

from __future__ import annotations

import pytest

from auth_billing.store.balances import MongoBalanceStore
from auth_billing.store.billing_stores import mongo_billing_stores
from auth_billing.store.connection import StoreConnection
from auth_billing.store.gateway_heartbeats import MongoHeartbeatStore
from auth_billing.store.idempotency import MongoIdempotencyStore
from auth_billing.store.jobs import MongoJobStore
from auth_billing.store.ledger import MongoLedgerStore
from tests.auth_billing.money.test_hold_batcher import job

pytestmark = pytest.mark.store


async def test_each_port_has_its_store(connection: StoreConnection) -> None:
    stores = mongo_billing_stores(connection)
    assert [type(each) for each in vars(stores).values()] == [
        MongoBalanceStore,
        MongoJobStore,
        MongoLedgerStore,
        MongoHeartbeatStore,
        MongoIdempotencyStore,
    ]
    await stores.jobs.insert([job("job-1")])
    assert await connection.durable("jobs").find_one({"_id": "job-1"}) is not None
