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


SetAccount = Callable[..., Awaitable[None]]


@pytest.fixture(params=["memory", pytest.param("mongo", marks=pytest.mark.store)])
async def stores_and_setter(request: pytest.FixtureRequest) -> AsyncIterator[tuple[BillingStores, SetAccount]]:
    if request.param == "memory":
        stores = dict_billing_stores()
        balances = stores.balances
        assert isinstance(balances, DictBalanceStore)

        async def set_in_memory(organisation: str, **fields: Any) -> None:
            await stores.balances.create(organisation)
            fields = {{"held_map": "held", "open": "is_open"}.get(name, name): value for name, value in fields.items()}
            balances.balances[organisation] = replace(balances.balances[organisation], **fields)

        yield stores, set_in_memory
        return
    connection = StoreConnection(request.getfixturevalue("database_url"), operation_ms=20_000)
    await create_indexes(connection)
    stores = mongo_billing_stores(connection)

    async def set_in_store(organisation: str, **fields: Any) -> None:
        await stores.balances.create(organisation)
        await connection.durable(COLLECTION).update_one({"_id": organisation}, {"$set": fields})

    yield stores, set_in_store
    connection.close()


@pytest.fixture
def stores(stores_and_setter: tuple[BillingStores, SetAccount]) -> BillingStores:
    return stores_and_setter[0]


@pytest.fixture
def set_account(stores_and_setter: tuple[BillingStores, SetAccount]) -> SetAccount:
    """Return a function that sets fields of an account's document, e.g. `available`, and creates the account."""
    return stores_and_setter[1]


@pytest.fixture
async def credit_store(stores: BillingStores, request: pytest.FixtureRequest) -> AsyncIterator[CreditStore]:
    """Credit entries beside `stores`."""
    if isinstance(stores.balances, DictBalanceStore):
        yield DictCreditStore(stores.balances)
        return
    connection = StoreConnection(request.getfixturevalue("database_url"), operation_ms=20_000)
    yield MongoCreditStore(connection)
    connection.close()
