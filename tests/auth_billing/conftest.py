"""Buses on the in-memory broker, and billing stores in memory and in MongoDB."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from auth_billing.money.billing_records import BillingStores
from auth_billing.money.credit import CreditStore
from auth_billing.store.balances import COLLECTION
from auth_billing.store.billing_stores import mongo_billing_stores
from auth_billing.store.connection import StoreConnection
from auth_billing.store.credits import MongoCreditStore
from auth_billing.store.indexes import create_indexes
from router.bus import Bus
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.fakes.accounts import FakeClock
from tests.fakes.billing_stores import DictBalanceStore, dict_billing_stores
from tests.fakes.credits import DictCreditStore


@dataclass
class Buses:
    broker: MemoryBroker
    billing: Bus
    others: Bus


@pytest.fixture
async def buses() -> AsyncIterator[Buses]:
    broker = MemoryBroker()
    billing, others = (Bus(MemoryTransport(broker, name)) for name in ("billing", "others"))
    for bus in (billing, others):
        await bus.start()
    yield Buses(broker, billing, others)
    for bus in (billing, others):
        await bus.close()


Eventually = Callable[[Callable[[], bool]], Awaitable[None]]


@pytest.fixture
def eventually() -> Eventually:
    async def wait(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.005)

    return wait


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


SetAccount = Callable[..., Awaitable[None]]


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[StoreConnection]:
    """Return a connection to an empty embedded store with all indexes."""
    connection = StoreConnection(database_url, operation_ms=20_000)
    await create_indexes(connection)
    yield connection
    connection.close()


@pytest.fixture(params=["memory", pytest.param("mongo", marks=pytest.mark.store)])
def store_connection(request: pytest.FixtureRequest) -> StoreConnection | None:
    """Run a test twice: with stores in memory (`None`), and with stores on this connection to an empty database."""
    if request.param == "memory":
        return None
    connection: StoreConnection = request.getfixturevalue("connection")
    return connection


@pytest.fixture
def stores(store_connection: StoreConnection | None) -> BillingStores:
    return dict_billing_stores() if store_connection is None else mongo_billing_stores(store_connection)


@pytest.fixture
def set_account(stores: BillingStores, store_connection: StoreConnection | None) -> SetAccount:
    """Return a function that sets fields of an account's document, e.g. `available`, and creates the account."""

    async def set_fields(organisation: str, **fields: Any) -> None:
        await stores.balances.create(organisation)
        if store_connection is not None:
            await store_connection.durable(COLLECTION).update_one({"_id": organisation}, {"$set": fields})
            return
        assert isinstance(stores.balances, DictBalanceStore)
        balances = stores.balances.balances
        fields = {{"held_map": "held", "open": "is_open"}.get(name, name): value for name, value in fields.items()}
        balances[organisation] = replace(balances[organisation], **fields)

    return set_fields


@pytest.fixture
def credit_store(stores: BillingStores, store_connection: StoreConnection | None) -> CreditStore:
    """Credit entries beside `stores`."""
    if store_connection is not None:
        return MongoCreditStore(store_connection)
    assert isinstance(stores.balances, DictBalanceStore)
    return DictCreditStore(stores.balances)
