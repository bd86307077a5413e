"""Creates the MongoDB indexes of stored objects at start-up; existing ones are kept."""

from __future__ import annotations

from auth_billing.store.connection import StoreConnection
from stored_objects.store import objects


async def create_indexes(connection: StoreConnection) -> None:
    """Create the indexes of the collection of stored objects; existing ones are kept.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    collection = connection.durable(objects.COLLECTION)
    await collection.create_index([("kept", 1), ("expires", 1)])
    await collection.create_index([("organisation", 1), ("requester", 1)])
