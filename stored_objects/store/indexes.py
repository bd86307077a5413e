"""Creates the MongoDB indexes of stored objects and project documents at start-up; existing ones are kept."""

from __future__ import annotations

from auth_billing.store.connection import StoreConnection
from stored_objects.store import batches, documents, objects, passages, vector_stores


async def create_indexes(connection: StoreConnection) -> None:
    """Create the indexes of the collections of stored objects and of project documents; existing ones are kept.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    collection = connection.durable(objects.COLLECTION)
    await collection.create_index([("kept", 1), ("expires", 1)])
    await collection.create_index([("organisation", 1), ("requester", 1)])
    await collection.create_index([("organisation", 1), ("requester", 1), ("kind", 1), ("created", -1), ("_id", -1)])
    await collection.create_index([("part_of", 1)], sparse=True)
    collection = connection.durable(batches.COLLECTION)
    await collection.create_index([("organisation", 1), ("project", 1), ("created", -1), ("_id", -1)])
    await collection.create_index([("state", 1), ("created", 1)])
    await collection.create_index([("kept_until", 1)], expireAfterSeconds=0)
    for name in documents.COLLECTIONS:
        collection = connection.durable(name)
        in_order = [("organisation", 1), ("project", 1), ("parent", 1), ("created", 1), ("_id", 1)]
        await collection.create_index(in_order)
        await collection.create_index([("expires", 1)])
        await collection.create_index([("organisation", 1), ("project", 1), ("size", 1)])
    runs = connection.durable(documents.RESPONSES)
    await runs.create_index([("run.lease", 1)], sparse=True)
    await runs.create_index([("parent", 1), ("_id", 1)])
    await _create_vector_store_indexes(connection)


async def _create_vector_store_indexes(connection: StoreConnection) -> None:
    collection = connection.durable(vector_stores.STORES)
    await collection.create_index([("organisation", 1), ("readers", 1), ("created", 1), ("_id", 1)])
    await collection.create_index([("expires", 1)])
    collection = connection.durable(vector_stores.FILES)
    await collection.create_index([("vector_store", 1), ("created", 1), ("_id", 1)])
    await collection.create_index([("vector_store", 1), ("batch", 1), ("state", 1)])
    await collection.create_index([("vector_store", 1), ("change", 1)])
    await collection.create_index([("change", 1)])
    await collection.create_index([("expires", 1)])
    await collection.create_index([("state", 1), ("created", 1)])
    await collection.create_index([("state", 1), ("passages", 1)])
    await collection.create_index([("organisation", 1), ("project", 1), ("size", 1)])
    await collection.create_index([("organisation", 1), ("project", 1), ("file", 1)])
    await connection.durable(vector_stores.BATCHES).create_index([("vector_store", 1)])
    await connection.durable(passages.SETS).create_index([("kept", 1)])
    await connection.durable(passages.BLOCKS).create_index([("set", 1), ("_id", 1)])
