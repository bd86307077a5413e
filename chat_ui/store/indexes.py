"""Creates the MongoDB indexes of the chat's collections at start-up; existing ones are kept."""

from __future__ import annotations

from auth_billing.store.connection import StoreConnection
from chat_ui.store import conversations, imports, messages, presets, shares


async def create_indexes(connection: StoreConnection) -> None:
    """Create the MongoDB indexes of the chat's collections at start-up; existing ones are kept.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    owner = [("user", 1), ("organisation", 1)]
    await connection.durable(conversations.COLLECTION).create_index([*owner, ("archived", 1), ("order", -1)])
    await connection.durable(messages.COLLECTION).create_index([("conversation", 1), ("created", 1)])
    await connection.durable(messages.COLLECTION).create_index([("open", 1)], sparse=True)
    await connection.durable(messages.COLLECTION).create_index([("lease", 1)], sparse=True)
    await connection.durable(imports.COLLECTION).create_index([("until", 1)])
    await connection.durable(presets.COLLECTION).create_index([*owner, ("name", 1)])
    await connection.durable(shares.COLLECTION).create_index([("digest", 1)], unique=True)
