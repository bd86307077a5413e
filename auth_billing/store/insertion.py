"""Idempotent insertion of documents, some of which may be stored already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymongo.errors import BulkWriteError

_DUPLICATE_KEY = 11000


async def insert_new(collection: Any, documents: Sequence[dict[str, Any]]) -> None:
    """Insert the documents (at least one) whose `_id` is not stored yet; stored documents are not changed.

    Raises:
        BulkWriteError: some may be written; `translated_errors` turns it into `StoreUnavailable`.
    """
    try:
        await collection.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        failures = [each for each in error.details["writeErrors"] if each["code"] != _DUPLICATE_KEY]
        if failures or error.details["writeConcernErrors"]:
            raise
