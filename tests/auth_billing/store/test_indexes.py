"""The indexes: created again without effect, unique where a store relies on it, with a TTL where documents expire."""

from __future__ import annotations

import pytest

from auth_billing.errors import StoreUnavailable
from auth_billing.store.connection import StoreConnection
from auth_billing.store.indexes import create_indexes

pytestmark = pytest.mark.store


async def test_creating_the_indexes_again_changes_nothing(connection: StoreConnection) -> None:
    before = await connection.durable("jobs").index_information()
    await create_indexes(connection)
    assert await connection.durable("jobs").index_information() == before
    assert len(before) > 1


@pytest.mark.parametrize(
    ("collection", "count"), [("users", 1), ("invitations", 1), ("ledger", 2), ("password_resets", 1)]
)
async def test_stores_that_rely_on_a_unique_index_have_it(
    connection: StoreConnection, collection: str, count: int
) -> None:
    indexes = await connection.durable(collection).index_information()
    assert sum(bool(index.get("unique")) for index in indexes.values()) == count


@pytest.mark.parametrize(
    "collection", ["alerts", "idempotency", "sessions", "password_resets", "rate_buckets", "gateway_leases"]
)
async def test_documents_that_expire_have_a_ttl_index(connection: StoreConnection, collection: str) -> None:
    indexes = await connection.durable(collection).index_information()
    assert sum("expireAfterSeconds" in index for index in indexes.values()) == 1


async def test_an_unavailable_store_raises() -> None:
    connection = StoreConnection("mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=50", operation_ms=200)
    with pytest.raises(StoreUnavailable):
        await create_indexes(connection)
    connection.close()
