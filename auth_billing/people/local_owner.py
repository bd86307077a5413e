"""Signs in the local owner of a development installation, by a link that the launcher prints at each start.

Its account has a random password that is not kept, so the link is the only way to sign in. Once a user with a password
of their own owns the organisation, the launcher makes no more links.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from auth_billing.access.roles import Role
from auth_billing.errors import InvitationVoid
from auth_billing.people.input_normalisation import RESERVED_DOMAIN
from auth_billing.people.invitations import Invitations
from auth_billing.people.members import Members
from auth_billing.people.passwords import Passwords
from auth_billing.people.people_records import Invitation, MembershipStore, User, UserStore
from auth_billing.people.sessions import Sessions, SignedIn

NAME = "Owner"
PASSWORD_BYTES = 32


def local_owner_email(organisation: str) -> str:
    """Return the e-mail address of an organisation's local owner: a reserved one, with which no user can sign up."""
    return f"owner@{organisation}{RESERVED_DOMAIN}"


async def is_unowned(users: UserStore, memberships: MembershipStore, organisation: str) -> bool:
    """Return whether the organisation with this id has no owner except, perhaps, the local owner."""
    local = await users.find_by_email(local_owner_email(organisation))
    return not await memberships.has_owner(organisation, besides="" if local is None else local.id)


@dataclass(kw_only=True, eq=False, repr=False)
class LocalOwner:
    """Signs in the local owner: the user of the launcher's browser link, before an organisation has an owner."""

    users: UserStore
    memberships: MembershipStore
    members: Members
    invitations: Invitations
    passwords: Passwords
    sessions: Sessions
    clock: Callable[[], float] = time.time

    async def sign_in(self, token: str) -> SignedIn:
        """Open a browser session of the local owner for the token of a first owner's invitation.

        The launcher made and prints the token, which works once.

        Raises:
            InvitationVoid: the token is used, is of another kind of invitation, or the organisation has an owner.
            PasswordsBusy: the owner's account must be created, and too many passwords are being hashed.
        """
        invitation = await self.invitations.open(token)
        if not _is_launchers(invitation) or not await is_unowned(self.users, self.memberships, invitation.organisation):
            raise InvitationVoid("not for the local owner")
        user = await self._user(invitation.organisation)
        await self.invitations.claim(token, user.id)
        await self.members.join(invitation.organisation, user.id, Role.OWNER, self.clock())
        return await self.sessions.begin(user, invitation.organisation)

    async def _user(self, organisation: str) -> User:
        email, user_id = local_owner_email(organisation), f"user-local-{organisation}"
        user = await self.users.find_by_email(email)
        if user is None:
            password = await self.passwords.hash(secrets.token_urlsafe(PASSWORD_BYTES))
            user = User(user_id, email, NAME, self.clock(), password)
            if not await self.users.add(user):
                raise InvitationVoid("accepted concurrently")
        elif user.id != user_id:  # of an earlier version, or signed up with the address before it was reserved
            membership = await self.memberships.find(organisation, user.id)
            if membership is None or membership.role is not Role.OWNER:
                raise InvitationVoid("another user has the local owner's address")
        return user


def _is_launchers(invitation: Invitation) -> bool:
    return invitation.role is Role.OWNER and not invitation.email and not invitation.invited_by
