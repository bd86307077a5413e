"""Both kinds of books, for tests that both must pass."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from auth_billing.money.billing_records import BillingStores
from auth_billing.store.balances import COLLECTION
from auth_billing.store.billing_stores import mongo_billing_stores
from auth_billing.store.connection import StoreConnection
from auth_billing.store.indexes import create_indexes
from tests.fakes.billing_stores import DictBalanceStore, dict_billing_stores

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
    """Writes fields of an account's document, e.g. what is available."""
    return stores_and_setter[1]
