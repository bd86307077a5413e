"""MongoDB store of identities at identity providers: `identities {_id, issuer, ...}`, `used_states {_id, forget}`."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from auth_billing.people.oidc.identity_records import Identity
from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document, to_document

COLLECTION = "identities"
STATES = "used_states"
EXPIRES = "forget"
"""The field of the TTL index."""

_identity = partial(from_document, Identity)


class MongoIdentityStore:
    """MongoDB implementation of `identity_records.IdentityStore`. Writes are journaled; raises `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._identities = connection.durable(COLLECTION)
        self._states = connection.durable(STATES)

    async def add(self, identity: Identity) -> bool:
        """Store a new identity durably; return false if its id is stored.

        An identity is an account at the identity provider that signs in as a user.
        """
        return await self._identities.insert_if_absent(to_document(identity))

    async def find(self, identity_id: str) -> Identity | None:
        """Return the identity (account at the identity provider) with this id, or `None` if there is none."""
        return await self._identities.find_record(_identity, {"_id": identity_id})

    async def of_user(self, user: str) -> list[Identity]:
        """Return the identities (accounts at the identity provider) that sign in as a user, oldest first."""
        found = self._identities.find({"user": user}).sort([("created", 1), ("_id", 1)])
        return [_identity(document) async for document in found]

    async def remove(self, identity_id: str, user: str) -> bool:
        """Delete an identity, which then can't sign in as the user; return false if the user has no such identity."""
        return bool((await self._identities.delete_one({"_id": identity_id, "user": user})).deleted_count)

    async def remove_all(self, user: str) -> None:
        """Delete all identities of a user, so that no account at the identity provider signs in as the user."""
        await self._identities.delete_many({"user": user})

    async def use_state(self, state: str, expires: float) -> bool:
        """Mark the `state` value of a sign-in at the identity provider as used; return false if it was used before.

        A TTL index deletes the mark after `expires` (Unix seconds).
        """
        return await self._states.insert_if_absent({"_id": state, EXPIRES: datetime.fromtimestamp(expires, UTC)})
