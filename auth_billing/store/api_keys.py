"""MongoDB store of API keys: `api_keys {_id: key id, digest, ...}`, the fields of `ApiKeyRecord`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymongo import UpdateOne

from auth_billing.access.scopes import known
from auth_billing.keys.key_records import ApiKeyRecord
from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document
from router.messages import KeySet

COLLECTION = "api_keys"


class MongoApiKeyStore:
    """MongoDB implementation of `ApiKeyStore`. Writes are journaled; methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._keys = connection.durable(COLLECTION)

    async def find(self, key_id: str) -> ApiKeyRecord | None:
        """Return the stored API key with this id, also a revoked or expired one; `None` if there is none."""
        return await self._keys.find_record(_from_document, {"_id": key_id})

    async def add(self, record: ApiKeyRecord) -> None:
        """Store a new API key durably: its record with the secret's digest."""
        await self._keys.insert_one(_to_document(record))

    async def unrevoked(self, organisation: str, project: str) -> list[ApiKeyRecord]:
        """Return an organisation's unrevoked API keys of a project (empty: the admin keys), newest first."""
        query = {"organisation": organisation, "project": project, "revoked": None}
        found = self._keys.find(query).sort([("created", -1), ("_id", 1)])
        return [_from_document(document) async for document in found]

    async def rename(self, key_id: str, name: str) -> None:
        """Change the name of the API key with this id; no effect if there is none."""
        await self._keys.update_one({"_id": key_id}, {"$set": {"name": name}})

    async def expire(self, key_id: str, at: float) -> None:
        """Set the expiry of the API key with this id to `at` (Unix seconds), unless the key expires earlier already."""
        lives_longer = {"_id": key_id, "$or": [{"expires": None}, {"expires": {"$gt": at}}]}
        await self._keys.update_one(lives_longer, {"$set": {"expires": at}})

    async def set_last_used(self, uses: Mapping[str, float]) -> None:
        """Store when API keys were last used (Unix seconds by key id); a later stored time is kept.

        The keys are stored in one write, which a crash may lose.
        """
        writes = [UpdateOne({"_id": key_id}, {"$max": {"last_used": at}}) for key_id, at in uses.items()]
        await self._keys.bulk_write(writes, ordered=False)

    async def revoke(self, keys: KeySet, now: float) -> int:
        """Revoke the unrevoked API keys that `keys` selects, at `now` (Unix seconds); return their number.

        Each key is revoked atomically. No key is revoked if `keys` has no criteria.
        """
        query = _query(keys)
        if not query:
            return 0
        result = await self._keys.update_many({**query, "revoked": None}, {"$set": {"revoked": now}})
        return int(result.modified_count)


def _query(keys: KeySet) -> dict[str, str]:
    """Return the query that matches what `ApiKeyRecord.is_in` accepts; empty for an empty key set."""
    fields = {"_id": keys.key, "organisation": keys.organisation, "project": keys.project, "user": keys.user}
    named = {name: value for name, value in fields.items() if value}
    return named | {"project": ""} if named and keys.admin_only else named


def _to_document(record: ApiKeyRecord) -> dict[str, Any]:
    fields = dict(vars(record))
    for name in ("scopes", "models"):
        fields[name] = None if fields[name] is None else sorted(fields[name])
    return {"_id": fields.pop("key_id"), **fields}


def _from_document(document: dict[str, Any]) -> ApiKeyRecord:
    scopes, models = document.get("scopes"), document.get("models")
    return from_document(
        ApiKeyRecord,
        document,
        key_id=document["_id"],
        digest=bytes(document["digest"]),
        scopes=None if scopes is None else known(scopes),
        models=None if models is None else frozenset(models),
    )
