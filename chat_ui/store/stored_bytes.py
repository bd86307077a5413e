"""MongoDB store of the bytes that each person has stored: `chat_storage {_id: ORGANISATION/USER, bytes}`."""

from __future__ import annotations

from typing import Any

from auth_billing.store.connection import StoreConnection
from chat_ui.history.records import Owner
from chat_ui.store.documents import owned_by

COLLECTION = "chat_storage"


class MongoStoredBytes:
    """MongoDB implementation of `history.storage.StoredBytes`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._counts = connection.unjournaled(COLLECTION)

    async def find(self, owner: Owner) -> int | None:
        """Return the owner's count; `None` if the owner has none yet."""
        return await self._counts.find_record(lambda found: int(found["bytes"]), _key(owner))

    async def begin(self, owner: Owner, stored: int) -> None:
        """Store the owner's first count; does nothing if there is one."""
        await self._counts.insert_if_absent({**_key(owner), "bytes": stored})

    async def add(self, owner: Owner, more: int, limit: int | None = None) -> bool:
        """Add to the count; return false and change nothing if it would exceed `limit`, or if there is none."""
        fits = {} if limit is None else {"bytes": {"$lte": limit - more}}
        return await self._counts.update_matching({**_key(owner), **fits}, {"$inc": {"bytes": more}})

    async def correct(self, owner: Owner, before: int, stored: int) -> bool:
        """Replace the count `before`; return false and change nothing if the count has changed."""
        return await self._counts.update_matching({**_key(owner), "bytes": before}, {"$set": {"bytes": stored}})


def _key(owner: Owner) -> dict[str, Any]:
    return owned_by(owner, _id=f"{owner.organisation}/{owner.user}")
