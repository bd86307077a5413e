"""Byte counts of storage quotas in MongoDB: `stored_object_bytes {_id: ORGANISATION[/REQUESTER], bytes, changed}`."""

from __future__ import annotations

from typing import Any

from auth_billing.store.connection import StoreConnection
from stored_objects.objects.quota import ByteCount, CountSubject

COLLECTION = "stored_object_bytes"


class MongoByteCounts:
    """MongoDB implementation of `quota.ByteCounts`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._counts = connection.durable(COLLECTION)  # a lost reservation would be released all the same

    async def find(self, subject: CountSubject) -> ByteCount | None:
        """Read the byte count of one owner or organisation from MongoDB; `None` if it has none yet."""
        return await self._counts.find_record(_count, {"_id": _key(subject)})

    async def begin(self, subject: CountSubject, count: ByteCount) -> None:
        """Insert the first byte count of one owner or organisation into MongoDB; does nothing if it has one."""
        await self._counts.insert_if_absent({"_id": _key(subject), **_fields(count)})

    async def add(self, subject: CountSubject, more: int, now: float, limit: int | None = None) -> bool:
        """Add `more` bytes (negative: subtract) to a subject's count by one conditional update in MongoDB.

        Return false and change nothing if the subject has no count, or would exceed `limit`.
        """
        fits = {} if limit is None else {"bytes": {"$lte": limit - more}}
        change = {"$inc": {"bytes": more}, "$set": {"changed": now}}
        return await self._counts.update_matching({"_id": _key(subject), **fits}, change)

    async def correct(self, subject: CountSubject, before: ByteCount, count: ByteCount) -> bool:
        """Replace a subject's count in MongoDB if it still equals `before`.

        Otherwise return false and change nothing.
        """
        query = {"_id": _key(subject), **_fields(before)}
        return await self._counts.update_matching(query, {"$set": _fields(count)})


def _key(subject: CountSubject) -> str:
    return subject.organisation if subject.requester is None else f"{subject.organisation}/{subject.requester}"


def _fields(count: ByteCount) -> dict[str, Any]:
    return {"bytes": count.total, "changed": count.changed}


def _count(document: dict[str, Any]) -> ByteCount:
    return ByteCount(document["bytes"], document["changed"])
