"""Invitations: links that let somebody into an organisation once, in a role, for some days.

A token is 256 random bits; what is stored is its HMAC under the installation's pepper. Nobody is sent anything: the
link is shown once to whoever made it, who hands it over. Knows no passwords: `sign_up.py` opens invitations.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable

from auth_billing.errors import InvitationVoid, NoSuchRecord
from auth_billing.ids import new_id
from auth_billing.people.given_text import checked_email
from auth_billing.people.people_records import Invitation, InvitationStatus, InvitationStore
from auth_billing.people.roles import Actor, Role

DAYS_VALID = 7
TOKEN_BYTES = 32
MAX_TOKEN = 64
"""Characters; a longer one is not even hashed."""


class Invitations:
    """Invitations of organisations.

    Args:
        store: where they are.
        pepper: the installation's secret.
        clock: Unix seconds.
    """

    def __init__(self, store: InvitationStore, pepper: bytes, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._pepper = pepper
        self._clock = clock

    async def invite(self, actor: Actor, role: Role, email: str = "") -> tuple[Invitation, str]:
        """A new invitation, and the token that opens it, which is known only now.

        `email`: only somebody with this address may use it; empty: whoever has the token.

        Raises:
            NotPermitted: the actor may not give this role.
            UnacceptableValue: that is no e-mail address.
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
        """The token of an invitation to own an organisation that nobody owns; earlier ones are void from now on."""
        await self._store.revoke_unowned(organisation, self._clock())
        _, token = await self.invite(Actor(organisation, "", Role.OWNER), Role.OWNER)
        return token

    async def all(self, organisation: str) -> list[Invitation]:
        """All invitations of an organisation, newest first, whatever has become of them."""
        return await self._store.of_organisation(organisation)

    async def find(self, organisation: str, invitation_id: str) -> Invitation:
        """One of them.

        Raises:
            NoSuchRecord: it is not this organisation's.
        """
        invitation = await self._store.find(organisation, invitation_id)
        if invitation is None:
            raise NoSuchRecord(f"no invitation {invitation_id} of {organisation}")
        return invitation

    async def revoke(self, actor: Actor, invitation_id: str) -> Invitation:
        """Make an invitation void; one that was accepted or has expired stays what it is.

        Raises:
            NotPermitted: the actor may not give its role.
            NoSuchRecord: it is not this organisation's.
        """
        actor.require(Role.ADMIN)
        actor.require_over((await self.find(actor.organisation, invitation_id)).role)
        await self._store.revoke(actor.organisation, invitation_id, self._clock())
        return await self.find(actor.organisation, invitation_id)

    async def open(self, token: str, *, even_used: bool = False) -> Invitation:
        """The invitation that a token opens; `even_used`: who used it may be the one who comes again.

        Raises:
            InvitationVoid: there is none, or it is used, expired or revoked.
        """
        invitation = await self._store.find_by_digest(self.digest(token)) if len(token) <= MAX_TOKEN else None
        status = None if invitation is None else invitation.status(self._clock())
        good = status is InvitationStatus.PENDING or (even_used and status is InvitationStatus.ACCEPTED)
        if invitation is None or not good:
            raise InvitationVoid("unknown, used, expired or revoked")
        return invitation

    async def claim(self, token: str, user: str) -> None:
        """Use an invitation up for a user. The same user may do so again, should the first answer have been lost.

        Raises:
            InvitationVoid: somebody else was first, or it is void by now.
        """
        if not await self._store.claim(self.digest(token), user, self._clock()):
            raise InvitationVoid("used by somebody else, expired or revoked")

    def digest(self, token: str) -> bytes:
        """What is stored of a token: 32 bytes."""
        # The colon is in no key's secret, so this is never what `api_keys.digest` computes.
        return hmac.digest(self._pepper, b"invitation:" + token.encode(errors="replace"), hashlib.sha256)
