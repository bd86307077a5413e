"""MongoDB store of the bytes that each person has stored: `chat_storage {_id: ORGANISATION/USER, bytes, changed}`."""

from __future__ import annotations

from typing import Any

from auth_billing.store.connection import StoreConnection
from chat_ui.history.records import Owner
from chat_ui.history.storage import ByteCount
from chat_ui.store.documents import owned_by

COLLECTION = "chat_storage"


class MongoStoredBytes:
    """MongoDB implementation of `history.storage.StoredBytes`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._counts = connection.unjournaled(COLLECTION)

    async def find(self, owner: Owner) -> ByteCount | None:
        """Return the stored count of an owner's bytes; `None` if the owner has none yet."""
        return await self._counts.find_record(_count, _key(owner))

    async def begin(self, owner: Owner, count: ByteCount) -> None:
        """Store the first count of an owner's bytes; no effect if there is one."""
        await self._counts.insert_if_absent({**_key(owner), **_fields(count)})

    async def add(self, owner: Owner, more: int, now: float, limit: int | None = None) -> bool:
        """Add `more` bytes to an owner's stored count at `now` (Unix seconds); return whether they were added.

        Nothing changes if the count would exceed `limit`, or if there is none.
        """
        fits = {} if limit is None else {"bytes": {"$lte": limit - more}}
        change = {"$inc": {"bytes": more}, "$set": {"changed": now}}
        return await self._counts.update_matching({**_key(owner), **fits}, change)

    async def correct(self, owner: Owner, before: ByteCount, count: ByteCount) -> bool:
        """Replace an owner's stored count `before` by `count`; return false, and change nothing, if it has changed."""
        return await self._counts.update_matching({**_key(owner), **_fields(before)}, {"$set": _fields(count)})


def _key(owner: Owner) -> dict[str, Any]:
    return owned_by(owner, _id=f"{owner.organisation}/{owner.user}")


def _fields(count: ByteCount) -> dict[str, Any]:
    return {"bytes": count.total, "changed": count.changed}


def _count(document: dict[str, Any]) -> ByteCount:
    return ByteCount(document["bytes"], document["changed"])
