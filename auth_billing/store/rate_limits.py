"""Limits that somebody has set, in MongoDB: `rate_limits {_id: subject, requests_per_minute, ...}`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from auth_billing.rate_limits.limits import Limits
from auth_billing.store.connection import StoreConnection, translated_errors

COLLECTION = "rate_limits"


class MongoLimitStore:
    """Implements `rate_limits.ports.LimitStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._limits = connection.durable(COLLECTION)

    async def find(self, subjects: Sequence[str]) -> dict[str, Limits]:
        """What is set of these subjects; those of which nothing is are missing."""
        with translated_errors():
            documents = await self._limits.find({"_id": {"$in": list(subjects)}}).to_list(None)
        return {document["_id"]: _from_document(document) for document in documents}

    async def change(self, subject: str, changes: Limits) -> Limits:
        """Set what `changes` says and leave the rest; all that is set then."""
        said = {name: limit for name, limit in vars(changes).items() if limit is not None}
        with translated_errors():
            await self._limits.update_one({"_id": subject}, {"$set": said}, upsert=True)
            document = await self._limits.find_one({"_id": subject})
        return _from_document(document)


def _from_document(document: dict[str, Any]) -> Limits:
    return Limits(**{name: document.get(name) for name in vars(Limits())})
