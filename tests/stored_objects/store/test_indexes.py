"""Indexes of stored objects: created, and again without effect."""

from __future__ import annotations

import pytest

from auth_billing.store.connection import StoreConnection
from stored_objects.store import batches, documents, passages, vector_stores
from stored_objects.store.indexes import create_indexes
from stored_objects.store.objects import COLLECTION

pytestmark = pytest.mark.store


async def test_indexes_serve_the_sweeper_and_the_sums(connection: StoreConnection) -> None:
    await create_indexes(connection)
    indexes = await connection.durable(COLLECTION).index_information()
    keys = [[name for name, _ in each["key"]] for each in indexes.values()]
    assert ["kept", "expires"] in keys
    assert ["organisation", "requester"] in keys
    assert ["organisation", "requester", "kind", "created", "_id"] in keys
    assert ["part_of"] in keys


async def test_an_index_has_the_sizes_of_documents_for_sums(connection: StoreConnection) -> None:
    for name in documents.COLLECTIONS:
        indexes = await connection.durable(name).index_information()
        keys = [[name for name, _ in each["key"]] for each in indexes.values()]
        assert ["organisation", "project", "size"] in keys


async def test_batches_are_listed_claimed_and_deleted_by_an_index(connection: StoreConnection) -> None:
    indexes = await connection.durable(batches.COLLECTION).index_information()
    keys = [[name for name, _ in each["key"]] for each in indexes.values()]
    assert ["organisation", "project", "created", "_id"] in keys
    assert ["state", "created"] in keys
    assert [each["expireAfterSeconds"] for each in indexes.values() if each["key"][0][0] == "kept_until"] == [0]


@pytest.mark.parametrize(
    ("collection", "expected"),
    [
        (vector_stores.STORES, ["organisation", "readers", "created", "_id"]),
        (vector_stores.STORES, ["expires"]),
        (vector_stores.FILES, ["vector_store", "created", "_id"]),
        (vector_stores.FILES, ["vector_store", "change"]),
        (vector_stores.FILES, ["change"]),
        (vector_stores.FILES, ["state", "created"]),
        (vector_stores.FILES, ["state", "passages"]),
        (vector_stores.FILES, ["organisation", "project", "size"]),
        (vector_stores.FILES, ["organisation", "project", "file"]),
        (passages.SETS, ["kept"]),
        (passages.BLOCKS, ["set", "_id"]),
    ],
)
async def test_vector_stores_are_listed_imported_indexed_and_swept_by_an_index(
    connection: StoreConnection, collection: str, expected: list[str]
) -> None:
    indexes = await connection.durable(collection).index_information()
    assert expected in [[name for name, _ in each["key"]] for each in indexes.values()]
