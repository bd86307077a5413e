"""All stores of money over one connection."""

from __future__ import annotations

from auth_billing.money.books import Books
from auth_billing.store.balances import MongoBalanceStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.jobs import MongoJobStore
from auth_billing.store.leases import MongoLeaseStore
from auth_billing.store.ledger import MongoLedgerStore


def mongo_books(connection: StoreConnection) -> Books:
    """The books in a store."""
    return Books(
        MongoBalanceStore(connection),
        MongoJobStore(connection),
        MongoLedgerStore(connection),
        MongoLeaseStore(connection),
    )
