"""MongoDB store of counts of stored bytes: `stored_object_bytes {_id: ORGANISATION[/REQUESTER], bytes, changed}`."""

from __future__ import annotations

from typing import Any

from auth_billing.store.connection import StoreConnection
from stored_objects.quota import ByteCount, CountSubject

COLLECTION = "stored_object_bytes"


class MongoByteCounts:
    """MongoDB implementation of `quota.ByteCounts`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._counts = connection.durable(COLLECTION)  # a lost reservation would be released all the same

    async def find(self, subject: CountSubject) -> ByteCount | None:
        """Return the count; `None` if there is none yet."""
        return await self._counts.find_record(_count, {"_id": _key(subject)})

    async def begin(self, subject: CountSubject, count: ByteCount) -> None:
        """Store the first count; does nothing if there is one."""
        await self._counts.insert_if_absent({"_id": _key(subject), **_fields(count)})

    async def add(self, subject: CountSubject, more: int, now: float, limit: int | None = None) -> bool:
        """Add to the count; return false and change nothing if it would exceed `limit`, or if there is none."""
        fits = {} if limit is None else {"bytes": {"$lte": limit - more}}
        change = {"$inc": {"bytes": more}, "$set": {"changed": now}}
        return await self._counts.update_matching({"_id": _key(subject), **fits}, change)

    async def correct(self, subject: CountSubject, before: ByteCount, count: ByteCount) -> bool:
        """Replace the count `before`; return false and change nothing if the count has changed."""
        query = {"_id": _key(subject), **_fields(before)}
        return await self._counts.update_matching(query, {"$set": _fields(count)})


def _key(subject: CountSubject) -> str:
    return subject.organisation if subject.requester is None else f"{subject.organisation}/{subject.requester}"


def _fields(count: ByteCount) -> dict[str, Any]:
    return {"bytes": count.total, "changed": count.changed}


def _count(document: dict[str, Any]) -> ByteCount:
    return ByteCount(document["bytes"], document["changed"])
