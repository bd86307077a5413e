"""API keys in MongoDB: `api_keys {_id: key id, digest, ...}`, the fields of `records.ApiKeyRecord`."""

from __future__ import annotations

from typing import Any

from auth_billing.records import ApiKeyRecord
from auth_billing.scopes import known
from auth_billing.store.connection import StoreConnection, translated_errors

COLLECTION = "api_keys"


class MongoApiKeyStore:
    """Implements `records.ApiKeyStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._keys = connection.durable(COLLECTION)

    async def find(self, key_id: str) -> ApiKeyRecord | None:
        """The key with this id."""
        with translated_errors():
            document = await self._keys.find_one({"_id": key_id})
        return None if document is None else _from_document(document)

    async def add(self, record: ApiKeyRecord) -> None:
        """Store a new key."""
        with translated_errors():
            await self._keys.insert_one(_to_document(record))

    async def revoke(self, project: str, now: float) -> int:
        """Revoke every live key of a project; how many there were."""
        with translated_errors():
            result = await self._keys.update_many({"project": project, "revoked": None}, {"$set": {"revoked": now}})
        return int(result.modified_count)


def _to_document(record: ApiKeyRecord) -> dict[str, Any]:
    fields = dict(vars(record))
    for name in ("scopes", "models"):
        fields[name] = None if fields[name] is None else sorted(fields[name])
    return {"_id": fields.pop("key_id"), **fields}


def _from_document(document: dict[str, Any]) -> ApiKeyRecord:
    scopes, models = document.get("scopes"), document.get("models")
    return ApiKeyRecord(
        key_id=document["_id"],
        digest=bytes(document["digest"]),
        last4=document["last4"],
        organisation=document["organisation"],
        project=document["project"],
        name=document["name"],
        created=document["created"],
        expires=document.get("expires"),
        revoked=document.get("revoked"),
        scopes=None if scopes is None else known(scopes),
        models=None if models is None else frozenset(models),
        user=document.get("user", ""),
        last_used=document.get("last_used"),
    )
