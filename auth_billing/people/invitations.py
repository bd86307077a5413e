"""Manages invitations to an organisation: single-use links that grant a role and expire after some days.

A token is 256 random bits; the store keeps its HMAC under the installation's pepper. No e-mail is sent: the link is
shown once to its creator, who passes it on. `sign_up.py` accepts invitations.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable

from auth_billing.access.roles import Actor, Role
from auth_billing.errors import InvitationVoid, NoSuchRecord
from auth_billing.ids import new_id
from auth_billing.people.input_normalisation import checked_email, fold_email
from auth_billing.people.people_records import Invitation, InvitationStatus, InvitationStore, User

DAYS_VALID = 7
TOKEN_BYTES = 32
MAX_TOKEN = 64
"""Length of the longest token that is hashed, in characters."""


class Invitations:
    """Creates, finds, revokes and claims invitations.

    Args:
        store: keeps the invitations.
        pepper: the installation's secret.
        clock: Unix seconds.
    """

    def __init__(self, store: InvitationStore, pepper: bytes, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._pepper = pepper
        self._clock = clock

    async def invite(self, actor: Actor, role: Role, email: str = "") -> tuple[Invitation, str]:
        """Create an invitation to the actor's organisation; return it with the token of its link, which is not stored.

        Args:
            role: the role of the member who accepts the invitation.
            email: only a user with this address may accept it; empty: anyone with the link.

        Raises:
            NotPermitted: the actor may not assign this role.
            UnacceptableValue: `email` is not an e-mail address.
        """
        actor.require_over(role)
        token, now = secrets.token_urlsafe(TOKEN_BYTES), self._clock()
        invitation = Invitation(
            id=new_id("invite-"),
            digest=self.digest(token),
            organisation=actor.organisation,
            role=role,
            email=checked_email(email) if email else "",
            created=now,
            expires=now + DAYS_VALID * 86_400,
            invited_by=actor.user,
        )
        await self._store.add(invitation)
        return invitation, token

    async def invite_first_owner(self, organisation: str) -> str:
        """Create an invitation to become the owner of an organisation that has none, and return its token.

        Earlier invitations of this kind (owner, for any address, made by no user) are revoked; other ones stay valid.
        """
        await self._store.revoke_unowned(organisation, self._clock())
        _, token = await self.invite(Actor(organisation, "", Role.OWNER), Role.OWNER)
        return token

    async def all(self, organisation: str) -> list[Invitation]:
        """Return all invitations of an organisation, pending, accepted, expired and revoked, newest first."""
        return await self._store.of_organisation(organisation)

    async def find(self, organisation: str, invitation_id: str) -> Invitation:
        """Return the invitation of an organisation that has this id, in any state.

        Raises:
            NoSuchRecord: the organisation has no invitation with this id.
        """
        invitation = await self._store.find(organisation, invitation_id)
        if invitation is None:
            raise NoSuchRecord(f"no invitation {invitation_id} of {organisation}")
        return invitation

    async def revoke(self, actor: Actor, invitation_id: str) -> Invitation:
        """Revoke and return an invitation; an accepted one keeps its status, an expired one becomes revoked.

        Raises:
            NotPermitted: the actor may not assign the invitation's role.
            NoSuchRecord: the organisation has no invitation with this id.
        """
        actor.require(Role.ADMIN)
        actor.require_over((await self.find(actor.organisation, invitation_id)).role)
        await self._store.revoke(actor.organisation, invitation_id, self._clock())
        return await self.find(actor.organisation, invitation_id)

    async def revoke_of(self, organisation: str, user: User) -> None:
        """Revoke the pending invitations to an organisation by a removed member, and those to the member's address."""
        now, address = self._clock(), fold_email(user.email)
        for each in await self._store.of_organisation(organisation):
            is_theirs = each.invited_by == user.id or fold_email(each.email) == address
            if is_theirs and each.status(now) is InvitationStatus.PENDING:
                await self._store.revoke(organisation, each.id, now)

    async def open(self, token: str) -> Invitation:
        """Return the pending invitation that a link's token belongs to, without using the invitation up.

        Raises:
            InvitationVoid: the invitation is unknown, accepted, expired or revoked.
        """
        invitation = await self._store.find_by_digest(self.digest(token)) if len(token) <= MAX_TOKEN else None
        if invitation is None or invitation.status(self._clock()) is not InvitationStatus.PENDING:
            raise InvitationVoid("unknown, used, expired or revoked")
        return invitation

    async def claim(self, token: str, user: str) -> None:
        """Mark a token's invitation as accepted by a user, before the user joins, so that it admits one user once.

        Raises:
            InvitationVoid: it was accepted, also by the same user, or it expired or was revoked.
        """
        if not await self._store.claim(self.digest(token), user, self._clock()):
            raise InvitationVoid("accepted, expired or revoked")

    def digest(self, token: str) -> bytes:
        """Return the form in which an invitation's token is stored: its HMAC-SHA256, 32 bytes."""
        # The colon is in no key's secret, so this is never what `key_format.digest` computes.
        return hmac.digest(self._pepper, b"invitation:" + token.encode(errors="replace"), hashlib.sha256)
