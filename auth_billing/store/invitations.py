"""Invitations in MongoDB: `invitations {_id, digest, organisation, ...}`; the digest of the token is unique."""

from __future__ import annotations

from typing import Any

from auth_billing.access.roles import Role
from auth_billing.people.people_records import Invitation
from auth_billing.store.connection import StoreConnection, translated_errors

COLLECTION = "invitations"
OPEN = {"accepted": None, "revoked": None}


class MongoInvitationStore:
    """Implements `people_records.InvitationStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._invitations = connection.durable(COLLECTION)

    async def add(self, invitation: Invitation) -> None:
        """Store a new one."""
        fields = {**vars(invitation), "role": invitation.role.value}
        with translated_errors():
            await self._invitations.insert_one({"_id": fields.pop("id"), **fields})

    async def find(self, organisation: str, invitation_id: str) -> Invitation | None:
        """The organisation's invitation with this id."""
        return await self._find({"_id": invitation_id, "organisation": organisation})

    async def find_by_digest(self, digest: bytes) -> Invitation | None:
        """The invitation that a token opens."""
        return await self._find({"digest": digest})

    async def of_organisation(self, organisation: str) -> list[Invitation]:
        """All invitations of an organisation, newest first."""
        with translated_errors():
            found = self._invitations.find({"organisation": organisation}).sort([("created", -1), ("_id", 1)])
            return [_invitation(document) async for document in found]

    async def claim(self, digest: bytes, user: str, now: float) -> bool:
        """Use it up for this user: true for one user only, and for him however often. False if it is void."""
        still_open = {"digest": digest, **OPEN, "expires": {"$gt": now}}
        with translated_errors():
            change = {"$set": {"accepted": now, "accepted_by": user}}
            if (await self._invitations.update_one(still_open, change)).matched_count:
                return True
            return await self._invitations.find_one({"digest": digest, "accepted_by": user}) is not None

    async def revoke(self, organisation: str, invitation_id: str, now: float) -> bool:
        """Make it void; false if it is no longer open."""
        still_open = {"_id": invitation_id, "organisation": organisation, **OPEN}
        with translated_errors():
            result = await self._invitations.update_one(still_open, {"$set": {"revoked": now}})
        return bool(result.matched_count)

    async def revoke_unowned(self, organisation: str, now: float) -> None:
        """Make void all open ones that no person has made."""
        unowned = {"organisation": organisation, "invited_by": "", **OPEN}
        with translated_errors():
            await self._invitations.update_many(unowned, {"$set": {"revoked": now}})

    async def _find(self, query: dict[str, Any]) -> Invitation | None:
        with translated_errors():
            document = await self._invitations.find_one(query)
        return None if document is None else _invitation(document)


def _invitation(document: dict[str, Any]) -> Invitation:
    fields = {**document, "digest": bytes(document["digest"]), "role": Role(document["role"])}
    return Invitation(id=fields.pop("_id"), **fields)
