"""Wraps MongoDB collections: their operations raise the errors of `auth_billing.errors` instead of the driver's."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pymongo
from bson.errors import InvalidDocument
from pymongo.errors import BulkWriteError, DocumentTooLarge, DuplicateKeyError, PyMongoError

from auth_billing.errors import RecordRefused, StoreUnavailable

_DUPLICATE_KEY = 11000

INDEX_TIMEOUT = 600.0
"""Timeout of the creation of an index in seconds, instead of the connection's: over many documents it takes minutes."""

RecordT = TypeVar("RecordT")


@contextmanager
def translated_errors() -> Iterator[None]:
    """Return a context manager that raises the MongoDB driver's errors as errors of `auth_billing`.

    `DuplicateKeyError` is raised as it is.

    Raises:
        RecordRefused: the document can't be encoded (an integer past int64 is an `OverflowError`).
        StoreUnavailable: any other error. The outcome of a write is then unknown, so every write must be repeatable.
    """
    try:
        yield
    except DuplicateKeyError:
        raise
    except (InvalidDocument, DocumentTooLarge, OverflowError) as error:
        raise RecordRefused(str(error)) from error
    except PyMongoError as error:
        raise StoreUnavailable(_short_message(error)) from error


def _short_message(error: PyMongoError) -> str:
    """Return the driver's message without the topology and timeouts that it appends."""
    return str(error).split(" (configured timeouts", 1)[0].split(", Timeout:", 1)[0] or type(error).__name__


def _translated(name: str) -> Callable[..., Awaitable[Any]]:
    """Return a method that calls the driver's method `name` and translates its errors."""

    async def call(self: Collection, *args: Any, **options: Any) -> Any:
        with translated_errors():
            return await getattr(self.raw, name)(*args, **options)

    return call


class Cursor:
    """The documents that a query found; iterating over them raises the errors of `translated_errors`."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def sort(self, *order: Any) -> Cursor:
        """Sort a query's documents by a field and direction, or by a list of such pairs; return this cursor."""
        self._raw.sort(*order)
        return self

    def limit(self, number: int) -> Cursor:
        """Limit the documents that a query finds to `number`; return this cursor."""
        self._raw.limit(number)
        return self

    async def to_list(self, length: int | None) -> list[dict[str, Any]]:
        """Read and return the next `length` documents that the query finds, or all that are left."""
        with translated_errors():
            return list(await self._raw.to_list(length))

    async def __aiter__(self) -> AsyncGenerator[dict[str, Any], None]:
        with translated_errors():
            try:
                async for document in self._raw:
                    yield document
            finally:
                await self._raw.close()


class Collection:
    """A MongoDB collection. The methods have the driver's names and arguments, the errors of `translated_errors`."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        """The driver's collection, which raises the driver's errors."""

    find_one = _translated("find_one")
    find_one_and_update = _translated("find_one_and_update")
    insert_one = _translated("insert_one")
    insert_many = _translated("insert_many")
    update_one = _translated("update_one")
    update_many = _translated("update_many")
    replace_one = _translated("replace_one")
    delete_one = _translated("delete_one")
    delete_many = _translated("delete_many")
    bulk_write = _translated("bulk_write")
    count_documents = _translated("count_documents")
    distinct = _translated("distinct")
    index_information = _translated("index_information")

    async def create_index(self, keys: Sequence[tuple[str, int]], **options: Any) -> None:
        """Create a MongoDB index over fields and directions, unless it exists; wait up to `INDEX_TIMEOUT` seconds.

        Raises:
            StoreUnavailable: the store does not answer; this takes only the connection's timeout.
        """
        with translated_errors():
            await self.raw.database.client.admin.command("ping")  # the timeout below would also wait for a server
            with pymongo.timeout(INDEX_TIMEOUT):
                await self.raw.create_index(keys, **options)

    def find(self, *args: Any, **options: Any) -> Cursor:
        """Return a cursor over the documents that match a MongoDB query; iteration reads them."""
        return Cursor(self.raw.find(*args, **options))

    def aggregate(self, stages: Sequence[Any]) -> Cursor:
        """Return a cursor over the documents of a MongoDB aggregation pipeline; iteration runs the pipeline."""
        return Cursor(self.raw.aggregate(stages))

    async def find_record(
        self, read: Callable[[dict[str, Any]], RecordT], *query: Any, **options: Any
    ) -> RecordT | None:
        """Return the record that `read` makes of the first document that matches a MongoDB query; `None`: no match."""
        document = await self.find_one(*query, **options)
        return None if document is None else read(document)

    async def insert_if_absent(self, document: dict[str, Any]) -> bool:
        """Insert one document; return false, and insert nothing, if its `_id` or another unique value is stored."""
        try:
            await self.insert_one(document)
        except DuplicateKeyError:
            return False
        return True

    async def update_matching(self, query: dict[str, Any], change: dict[str, Any] | list[dict[str, Any]]) -> bool:
        """Apply the update `change` to one document that matches `query`; return false if none matches."""
        return bool((await self.update_one(query, change)).matched_count)

    async def insert_new(self, documents: Sequence[dict[str, Any]]) -> list[bool]:
        """Insert the documents (at least one) whose `_id` is not stored yet; return for each whether it was inserted.

        Raises:
            StoreUnavailable, RecordRefused: some of the documents may be written.
        """
        if len(documents) == 1:  # takes two thirds of the time of `insert_many` on the embedded store
            return [await self.insert_if_absent(documents[0])]
        stored: set[int] = set()
        with translated_errors():
            try:
                await self.raw.insert_many(documents, ordered=False)
            except BulkWriteError as error:
                failures = [each for each in error.details["writeErrors"] if each["code"] != _DUPLICATE_KEY]
                if failures or error.details["writeConcernErrors"]:
                    raise
                stored = {each["index"] for each in error.details["writeErrors"]}
        return [number not in stored for number in range(len(documents))]
