"""MongoDB store of usage records: `usage {_id: "<job>:<attempt>", job, attempt, tenant, ...}`, insert-only.

The `_id` is derived from the record, so a record that is stored again, after a redelivery or an unknown outcome, is
stored once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from auth_billing.money.usage_store import Insertion
from auth_billing.store.connection import StoreConnection
from auth_billing.store.usage_documents import (
    parts_from_documents,
    parts_to_documents,
    usage_from_document,
    usage_to_document,
)
from router.messages import UsageRecord
from router.usage_arithmetic import JobUsage

COLLECTION = "usage"


class MongoUsageStore:
    """MongoDB implementation of `UsageStore`. Writes are journaled; methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._usage = connection.durable(COLLECTION)

    async def add_new(self, records: Sequence[UsageRecord]) -> list[bool]:
        """Store those of the usage records that are not stored yet, durably, in one write.

        Return for each record whether this call stored it. Pass the others to `add`, which tells repeated from
        conflicting records.

        Raises:
            RecordRefused: the store can't hold one of the records; the others may be stored.
        """
        return await self._usage.insert_new([_to_document(each) for each in records])

    async def add(self, record: UsageRecord) -> Insertion:
        """Store a usage record durably, unless its attempt has one; return whether it is new, repeated or conflicting.

        Raises:
            RecordRefused: the store can't hold the record.
        """
        document = _to_document(record)
        if await self._usage.insert_if_absent(document):
            return Insertion.NEW
        stored = await self._usage.find_one({"_id": document["_id"]})
        return Insertion.REPEATED if _same(stored, document) else Insertion.CONFLICTING

    async def of_jobs(self, jobs: Collection[str]) -> Sequence[tuple[str, JobUsage]]:
        """Return a pair of job id and usage for each attempt at these jobs that has a usage record."""
        found = self._usage.find({"job": {"$in": list(jobs)}}, {"job": True, "usage": True, "parts": True})
        return [(each["job"], used_from_document(each)) async for each in found]


def _to_document(record: UsageRecord) -> dict[str, Any]:
    return {
        "_id": f"{record.job}:{record.attempt}",
        **{name: str(getattr(record, name)) for name in ("job", "attempt", "tenant", "model", "worker", "digest")},
        "outcome": record.outcome.value,
        "error": record.error.value if record.error is not None else None,
        "usage": usage_to_document(record.usage),
        **({"parts": parts_to_documents(record.parts)} if record.parts else {}),
        "at": record.at,
    }


def used_from_document(document: Mapping[str, Any]) -> JobUsage:
    """Convert the MongoDB document of a usage record to the usage that the worker recorded, with its parts."""
    return JobUsage(usage_from_document(document["usage"]), parts_from_documents(document.get("parts", ())))


def _same(stored: dict[str, Any] | None, document: dict[str, Any]) -> bool:
    """Return whether two records are equal except for their time."""
    if stored is None:
        return False
    return {**stored, "at": None} == {**document, "at": None}
