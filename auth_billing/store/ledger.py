"""The ledger in MongoDB: double entry, insert-only.

    ledger {
        _id: str,                     "<job>:settle:0" for a job; follows from what is posted
        organisation: str,
        debit, credit: str,           `customer:<organisation>`, `revenue`, `promo`, `refunds`, `rounding`, `cash`
        amount: int,                  nano-USD, more than 0: moves from `debit` to `credit`, so every row sums to 0
        kind: str,                    "settle" for jobs
        at: float,                    Unix seconds
        job: str,                     and what follows: of jobs only
        usage: {prompt_tokens, completion_tokens, cached_tokens: int},
        price_version: int
    }

A job that cost nothing has no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymongo

from auth_billing.money.books import Posting
from auth_billing.store.connection import BATCH_SECONDS, StoreConnection, translated_errors
from auth_billing.store.insertion import insert_new

COLLECTION = "ledger"


class MongoLedgerStore:
    """Implements `books.LedgerStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._ledger = connection.durable(COLLECTION)

    async def post(self, postings: Sequence[Posting]) -> None:
        """Store those that are not there yet."""
        if postings:
            with translated_errors(), pymongo.timeout(BATCH_SECONDS):
                await insert_new(self._ledger, [_to_document(each) for each in postings])


def _to_document(posting: Posting) -> dict[str, Any]:
    fields = dict(vars(posting))
    usage = fields.pop("usage")
    document = {"_id": fields.pop("id"), **{name: value for name, value in fields.items() if value is not None}}
    if usage is not None:
        names = ("prompt_tokens", "completion_tokens", "cached_tokens")
        document["usage"] = {name: getattr(usage, name) for name in names}
    return document
