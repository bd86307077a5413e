"""Creates API keys: generates a key and stores its digest. The callers check permissions."""

from __future__ import annotations

from dataclasses import dataclass

from auth_billing.access.scopes import Scope
from auth_billing.keys import key_format
from auth_billing.keys.key_format import ApiKey
from auth_billing.keys.key_records import ApiKeyRecord, ApiKeyStore


@dataclass(frozen=True)
class KeySpec:
    """Properties of a new API key; by default all scopes and models that its kind of key may have, and no expiry."""

    name: str
    scopes: frozenset[Scope] | None = None
    models: frozenset[str] | None = None
    expires: float | None = None


@dataclass(frozen=True)
class IssuedKey:
    """A new key with its record. Only here is the key's text known; it is not stored."""

    key: ApiKey
    record: ApiKeyRecord


async def issue(
    keys: ApiKeyStore, pepper: bytes, *, organisation: str, project: str, spec: KeySpec, user: str, now: float
) -> IssuedKey:
    """Generate an API key of a project, store its digest, and return the key's text with its record.

    `user`: id of the user or service account that owns the key, "" for none; `now`: its creation time in Unix seconds.
    The caller checks permissions.

    Raises:
        StoreUnavailable: the key may or may not have been stored; its text is lost.
    """
    key = key_format.generate()
    record = ApiKeyRecord(
        key_id=key.key_id,
        digest=key_format.digest(pepper, key.secret),
        last4=key.text[-4:],
        organisation=organisation,
        project=project,
        name=spec.name,
        created=now,
        expires=spec.expires,
        scopes=spec.scopes,
        models=spec.models,
        user=user,
    )
    await keys.add(record)
    return IssuedKey(key, record)
