"""Writes many documents, some at a time, of which some may be there already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import bson
import pymongo

from auth_billing.store.connection import BATCH_SECONDS, translated_errors
from auth_billing.store.insertion import insert_new

MOST_DOCUMENTS = 200
MOST_BYTES = 1_048_576
"""Of a batch, unless one document alone has more: the store is others' as well, and does one thing at a time."""


async def insert_in_batches(collection: Any, documents: Iterable[dict[str, Any]]) -> None:
    """Insert what is not there yet, by `_id`; what is there stays as it is. A failure leaves some of it written.

    `documents` are made batch by batch, so that others of this process get their turn in between.

    Raises:
        StoreUnavailable: try again.
        RecordRefused: a document is too large.
    """
    for batch in _batches(documents):
        with translated_errors(), pymongo.timeout(BATCH_SECONDS):
            await insert_new(collection, batch)


def _batches(documents: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    size = 0
    for document in documents:
        more = len(bson.encode(document))
        if batch and (len(batch) == MOST_DOCUMENTS or size + more > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(document)
        size += more
    if batch:
        yield batch
