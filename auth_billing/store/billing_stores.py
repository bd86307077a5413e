"""Builds the MongoDB stores that settlement needs, over one connection."""

from __future__ import annotations

from auth_billing.money.billing_records import BillingStores
from auth_billing.store.balances import MongoBalanceStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.gateway_heartbeats import MongoHeartbeatStore
from auth_billing.store.idempotency import MongoIdempotencyStore
from auth_billing.store.jobs import MongoJobStore
from auth_billing.store.ledger import MongoLedgerStore


def mongo_billing_stores(connection: StoreConnection) -> BillingStores:
    """Return new MongoDB stores of accounts, jobs, ledger entries, heartbeats and stored answers on one connection."""
    return BillingStores(
        MongoBalanceStore(connection),
        MongoJobStore(connection),
        MongoLedgerStore(connection),
        MongoHeartbeatStore(connection),
        MongoIdempotencyStore(connection),
    )
