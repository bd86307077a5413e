"""MongoDB store of invitations: `invitations {_id, digest, organisation, ...}`; the token's digest is unique."""

from __future__ import annotations

from typing import Any

from auth_billing.access.roles import Role
from auth_billing.people.people_records import Invitation
from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document, to_document

COLLECTION = "invitations"
OPEN = {"accepted": None, "revoked": None}


class MongoInvitationStore:
    """MongoDB implementation of `people_records.InvitationStore`. Methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._invitations = connection.durable(COLLECTION)

    async def add(self, invitation: Invitation) -> None:
        """Store a new invitation to an organisation durably."""
        await self._invitations.insert_one(to_document(invitation, role=invitation.role.value))

    async def find(self, organisation: str, invitation_id: str) -> Invitation | None:
        """Return the invitation of an organisation with this id, in any state, or `None` if there is none."""
        return await self._invitations.find_record(_invitation, {"_id": invitation_id, "organisation": organisation})

    async def find_by_digest(self, digest: bytes) -> Invitation | None:
        """Return the invitation whose token has this digest, in any state, or `None` if there is none."""
        return await self._invitations.find_record(_invitation, {"digest": digest})

    async def of_organisation(self, organisation: str) -> list[Invitation]:
        """Return all invitations of an organisation in any state, newest first."""
        found = self._invitations.find({"organisation": organisation}).sort([("created", -1), ("_id", 1)])
        return [_invitation(document) async for document in found]

    async def claim(self, digest: bytes, user: str, now: float) -> bool:
        """Mark the invitation whose token has this digest as accepted by a user at `now` (Unix seconds).

        Return false, and change nothing, if the invitation is not pending.
        """
        still_open = {"digest": digest, **OPEN, "expires": {"$gt": now}}
        change = {"$set": {"accepted": now, "accepted_by": user}}
        return await self._invitations.update_matching(still_open, change)

    async def revoke(self, organisation: str, invitation_id: str, now: float) -> bool:
        """Revoke an organisation's invitation at `now` (Unix seconds); return false if it was accepted or revoked."""
        still_open = {"_id": invitation_id, "organisation": organisation, **OPEN}
        return await self._invitations.update_matching(still_open, {"$set": {"revoked": now}})

    async def revoke_unowned(self, organisation: str, now: float) -> None:
        """Revoke at `now` (Unix seconds) an organisation's pending invitations of a first owner.

        These are for the role of owner, for any e-mail address, and made by no user.
        """
        unowned = {"organisation": organisation, "invited_by": "", "role": Role.OWNER.value, "email": "", **OPEN}
        await self._invitations.update_many(unowned, {"$set": {"revoked": now}})


def _invitation(document: dict[str, Any]) -> Invitation:
    return from_document(Invitation, document, digest=bytes(document["digest"]), role=Role(document["role"]))
