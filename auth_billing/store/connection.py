"""The connection to MongoDB, or to the embedded store that speaks its protocol: time limits, durability, errors.

Every operation has a deadline, so that a store that is away or slow fails requests quickly instead of
gathering them (docs/design/reliability-contract.md#F14, F15). Knows nothing of what is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from bson.errors import InvalidDocument
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import WriteConcern
from pymongo.errors import ConfigurationError, DocumentTooLarge, DuplicateKeyError, InvalidURI, PyMongoError

from auth_billing.errors import RecordRefused, StoreUnavailable
from runtime.lifecycle import StartupError

SERVER_SELECTION_MS = 2000
OPERATION_MS = 1500
DATABASE = "headrace"
"""Unless the URL names another."""

DURABLE = WriteConcern(w="majority", j=True)
"""On a majority of the replicas and in the journal: for whatever must not be forgotten once it was acknowledged."""

PASSING = WriteConcern(w=1, j=False)

BATCH_SECONDS = 10.0
"""What reading or writing much at once gets; never on the way of a request."""


class StoreConnection:
    """A client and its database. Connects when first used and mends itself.

    Args:
        url: of MongoDB, with the database's name in it if it is not `DATABASE`.
        operation_ms: what each operation gets.

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

    def durable(self, collection: str) -> Any:
        """A collection whose writes are acknowledged when they are journaled by a majority."""
        return self._database.get_collection(collection, write_concern=DURABLE)

    def passing(self, collection: str) -> Any:
        """A collection whose writes are acknowledged before they are journaled: for what may be lost in a crash."""
        return self._database.get_collection(collection, write_concern=PASSING)

    async def ping(self) -> None:
        """Ask whether the store answers.

        Raises:
            StoreUnavailable: it does not.
        """
        with translated_errors():
            await self._client.admin.command("ping")

    async def server_time(self) -> float:
        """The server's clock, in Unix seconds.

        Raises:
            StoreUnavailable: it does not answer.
        """
        with translated_errors():
            told: datetime = (await self._client.admin.command("hello"))["localTime"]
        return told.replace(tzinfo=UTC).timestamp()

    def close(self) -> None:
        """Give the sockets back."""
        self._client.close()


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn the driver's errors into ours; a duplicate key stays what it is, for the stores to make sense of.

    Raises:
        RecordRefused: the document can't be encoded (an integer past int64 is an `OverflowError`).
        StoreUnavailable: anything else, so also an unknown outcome: every write of ours may be repeated.
    """
    try:
        yield
    except DuplicateKeyError:
        raise
    except (InvalidDocument, DocumentTooLarge, OverflowError) as error:
        raise RecordRefused(str(error)) from error
    except PyMongoError as error:
        raise StoreUnavailable(_in_short(error)) from error


def _in_short(error: PyMongoError) -> str:
    """What the driver says, without the topology and the timeouts that it always adds."""
    return str(error).split(" (configured timeouts", 1)[0].split(", Timeout:", 1)[0] or type(error).__name__
