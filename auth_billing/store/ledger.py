"""MongoDB store of billing's ledger: appends double-entry ledger entries, which never change.

    ledger {
        _id: str,                     "<job>:settle:0" for a job; derived from the transaction
        organisation: str,
        debit, credit: str,           `customer:<organisation>`, `revenue`, `promo`, `refunds`, `rounding`, `cash`
        amount: int,                  nano-USD, more than 0: moves from `debit` to `credit`, so every entry sums to 0
        kind: str,                    "settle" for jobs
        at: float,                    Unix seconds
        job: str,                     this and the fields below: entries of jobs only
        usage: {prompt_tokens, completion_tokens, cached_tokens: int, units: {...} | absent},
        parts: [part] | absent,       usage of the job's steps by model (`usage_documents.py`)
        price_version: int
    }

A job that cost nothing has no entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymongo

from auth_billing.money.billing_records import LedgerEntry
from auth_billing.store.connection import BATCH_TIMEOUT, StoreConnection
from auth_billing.store.usage_documents import parts_to_documents, usage_to_document

COLLECTION = "ledger"


class MongoLedgerStore:
    """MongoDB implementation of `billing_records.LedgerStore`. Writes are journaled; raises `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._ledger = connection.durable(COLLECTION)

    async def post(self, entries: Sequence[LedgerEntry]) -> None:
        """Append entries to the ledger durably; an entry whose id is stored already is skipped."""
        if entries:
            with pymongo.timeout(BATCH_TIMEOUT):
                await self._ledger.insert_new([_to_document(each) for each in entries])


def _to_document(entry: LedgerEntry) -> dict[str, Any]:
    fields = dict(vars(entry))
    usage, parts = fields.pop("usage"), fields.pop("parts")
    document = {"_id": fields.pop("id"), **{name: value for name, value in fields.items() if value is not None}}
    if usage is not None:
        document["usage"] = usage_to_document(usage)
    if parts:
        document["parts"] = parts_to_documents(parts)
    return document
