"""MongoDB store of configured rate limits: `rate_limits {_id: subject, requests_per_minute, ...}`."""

from __future__ import annotations

from collections.abc import Sequence

from auth_billing.rate_limits.limits import Limits
from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document

COLLECTION = "rate_limits"


class MongoLimitStore:
    """MongoDB implementation of `rate_limits.ports.LimitStore`. Writes are journaled; raises `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._limits = connection.durable(COLLECTION)

    async def find(self, subjects: Sequence[str]) -> dict[str, Limits]:
        """Return the configured rate limits of the subjects with these ids, by id; subjects without any are missing."""
        documents = await self._limits.find({"_id": {"$in": list(subjects)}}).to_list(None)
        return {document["_id"]: from_document(Limits, document) for document in documents}

    async def change(self, subject: str, changes: Limits) -> Limits:
        """Set those of a subject's rate limits that are not `None` in `changes`, durably; return all its limits."""
        changed = {name: limit for name, limit in vars(changes).items() if limit is not None}
        await self._limits.update_one({"_id": subject}, {"$set": changed}, upsert=True)
        document = await self._limits.find_one({"_id": subject})
        return from_document(Limits, document)

    async def remove(self, subject: str) -> None:
        """Remove all configured rate limits of the subject with this id, durably."""
        await self._limits.delete_one({"_id": subject})
