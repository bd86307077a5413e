"""The local owner: whoever reads what the launcher prints, let in by one click as long as nobody else owns the place.

It is an account like any other, but for its password, which is random and known to nobody: the only way in is a link
that the launcher makes anew at every start. Once somebody who can sign in owns the organisation, there are none.
Knows no launcher.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from auth_billing.errors import InvitationVoid
from auth_billing.ids import new_id
from auth_billing.people.directory import People
from auth_billing.people.invitations import Invitations
from auth_billing.people.passwords import Passwords
from auth_billing.people.people_records import Invitation, MembershipStore, User, UserStore
from auth_billing.people.roles import Role
from auth_billing.people.sessions import Sessions, SignedIn

NAME = "Owner"
PASSWORD_BYTES = 32


def local_owner_email(organisation: str) -> str:
    """The address of an organisation's local owner; no mail goes there (RFC 6761, 6.3)."""
    return f"owner@{organisation}.localhost"


async def is_unowned(users: UserStore, memberships: MembershipStore, organisation: str) -> bool:
    """Whether nobody but, perhaps, the local owner owns it."""
    local = await users.find_by_email(local_owner_email(organisation))
    return not await memberships.has_owner(organisation, besides="" if local is None else local.id)


class LocalOwner:
    """Lets the local owner in."""

    def __init__(
        self,
        *,
        users: UserStore,
        memberships: MembershipStore,
        people: People,
        invitations: Invitations,
        passwords: Passwords,
        sessions: Sessions,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._users = users
        self._memberships = memberships
        self._people = people
        self._invitations = invitations
        self._passwords = passwords
        self._sessions = sessions
        self._clock = clock

    async def let_in(self, token: str) -> SignedIn:
        """A session, for the token of an invitation that the launcher made for the first owner; once.

        Raises:
            InvitationVoid: it is used or another kind of invitation, or the organisation is owned by somebody.
            PasswordsBusy
        """
        invitation = await self._invitations.open(token)
        if not _is_launchers(invitation) or not await is_unowned(
            self._users, self._memberships, invitation.organisation
        ):
            raise InvitationVoid("not for the local owner")
        user = await self._user(invitation.organisation)
        await self._invitations.claim(token, user.id)
        await self._people.join(invitation.organisation, user.id, Role.OWNER, self._clock())
        return await self._sessions.begin(user, invitation.organisation)

    async def _user(self, organisation: str) -> User:
        email = local_owner_email(organisation)
        user = await self._users.find_by_email(email)
        if user is None:
            password = await self._passwords.hash(secrets.token_urlsafe(PASSWORD_BYTES))
            user = User(new_id("user-"), email, NAME, self._clock(), password)
            if not await self._users.add(user):
                raise InvitationVoid("another click was quicker")
        return user


def _is_launchers(invitation: Invitation) -> bool:
    return invitation.role is Role.OWNER and not invitation.email and not invitation.invited_by
