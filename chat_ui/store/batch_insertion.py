"""Inserts many documents into a MongoDB collection in batches, and skips those that exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import bson
import pymongo

from auth_billing.store.collection import Collection
from auth_billing.store.connection import BATCH_TIMEOUT

MAX_DOCUMENTS = 200
MAX_BYTES = 1_048_576
"""Bytes of a batch, at most, unless one document is larger: the embedded store blocks other clients meanwhile."""


async def insert_missing(collection: Collection, documents: Iterable[dict[str, Any]]) -> None:
    """Insert those documents whose `_id` the MongoDB collection does not have yet, in batches.

    `documents` is consumed batch by batch, so that other tasks of this process can run in between.

    Raises:
        StoreUnavailable: the store did not answer; some may be written, and the call may be repeated.
        RecordRefused: a document is too large; some may be written.
    """
    for batch in _batches(documents):
        with pymongo.timeout(BATCH_TIMEOUT):
            await collection.insert_new(batch)


def _batches(documents: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    size = 0
    for document in documents:
        more = len(bson.encode(document))
        if batch and (len(batch) == MAX_DOCUMENTS or size + more > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(document)
        size += more
    if batch:
        yield batch
