"""Inserts documents of which some may be there already: any number of times is once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymongo.errors import BulkWriteError

_DUPLICATE_KEY = 11000


async def insert_new(collection: Any, documents: Sequence[dict[str, Any]]) -> None:
    """Insert those documents, one at least, whose `_id` is not there yet; what is there stays as it is.

    Raises:
        BulkWriteError: some of it may be written; within `translated_errors` it is `StoreUnavailable`.
    """
    try:
        await collection.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        others = [each for each in error.details["writeErrors"] if each["code"] != _DUPLICATE_KEY]
        if others or error.details["writeConcernErrors"]:
            raise
