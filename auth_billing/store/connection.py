"""Connects to MongoDB, or to the embedded store that speaks its protocol: timeouts, durability and translated errors.

Every operation has a timeout, so that requests fail quickly instead of piling up when the store is unavailable or slow
(docs/design/reliability-contract.md#F14).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import WriteConcern
from pymongo.errors import ConfigurationError, InvalidURI

from auth_billing.store.collection import Collection, translated_errors
from runtime.lifecycle import StartupError

SERVER_SELECTION_MS = 2000
OPERATION_MS = 1500
DATABASE = "headrace"
"""The database, unless the URL names another."""

DURABLE = WriteConcern(w="majority", j=True)
"""Acknowledged by a majority of the replicas after the journal: a later crash loses nothing."""

UNJOURNALED = WriteConcern(w=1, j=False)
"""Acknowledged by one server before its journal: a crash of its machine may lose the write."""

BATCH_TIMEOUT = 10.0
"""Timeout in seconds of reads and writes of many documents, which never run on a request's path."""


class StoreConnection:
    """A MongoDB client and its database. It connects on first use and reconnects by itself.

    Args:
        url: a MongoDB URL, with the database's name unless that is `DATABASE`.
        operation_ms: the timeout of each operation in milliseconds.

    Raises:
        StartupError: `url` is not a MongoDB URL.
    """

    def __init__(self, url: str, *, operation_ms: int = OPERATION_MS) -> None:
        try:
            self._client: Any = AsyncIOMotorClient(
                url,
                serverSelectionTimeoutMS=SERVER_SELECTION_MS,
                timeoutMS=operation_ms,
                appname="headrace",
            )
        except (InvalidURI, ConfigurationError, ValueError) as error:
            raise StartupError(f"HEADRACE_MONGODB_URL is not a MongoDB URL: {error}") from error
        self._database: Any = self._client.get_default_database(DATABASE)

    def durable(self, collection: str) -> Collection:
        """Return the collection with this name, for writes acknowledged when a majority of servers journaled them."""
        return Collection(self._database.get_collection(collection, write_concern=DURABLE))

    def unjournaled(self, collection: str) -> Collection:
        """Return the collection with this name, for writes acknowledged unjournaled, which a crash may lose."""
        return Collection(self._database.get_collection(collection, write_concern=UNJOURNALED))

    async def ping(self) -> None:
        """Check that the MongoDB server answers.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        with translated_errors():
            await self._client.admin.command("ping")

    async def server_time(self) -> float:
        """Return the MongoDB server's time in Unix seconds.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        with translated_errors():
            local_time: datetime = (await self._client.admin.command("hello"))["localTime"]
        return local_time.replace(tzinfo=UTC).timestamp()

    def close(self) -> None:
        """Close the MongoDB client and its sockets; the connection can't be used afterwards."""
        self._client.close()
