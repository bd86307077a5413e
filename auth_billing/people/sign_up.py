"""Creates user accounts by invitation or self-registration, makes existing users members, and signs all of them in.

A client can't choose its role, ids or credit: the invitation sets the role, and a self-registered organisation has no
credit. An interrupted sign-up can be started again until its invitation is used up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from auth_billing.access.roles import Actor, Role
from auth_billing.errors import EmailTaken, InvalidCredentials, InvitationVoid, NotPermitted, SignUpClosed
from auth_billing.ids import new_id
from auth_billing.people.input_normalisation import checked_email, checked_name, fold_email
from auth_billing.people.invitations import Invitations
from auth_billing.people.members import Members, current_actor
from auth_billing.people.passwords import Passwords
from auth_billing.people.people_records import Invitation, MembershipStore, User, UserStore
from auth_billing.people.projects import Projects
from auth_billing.people.sessions import Sessions, SignedIn
from auth_billing.people.sign_in import SignIn


@dataclass(frozen=True)
class SignUpInput:
    """Input of a sign-up. `name` is not needed for an existing account."""

    email: str
    name: str
    password: str
    address: str
    """The client's network address."""


@dataclass(kw_only=True, eq=False, repr=False)
class SignUp:
    """Creates user accounts. `registration_open`: whether users without an invitation may sign up."""

    users: UserStore
    memberships: MembershipStore
    members: Members
    invitations: Invitations
    projects: Projects
    passwords: Passwords
    sign_in: SignIn
    sessions: Sessions
    registration_open: bool
    clock: Callable[[], float] = time.time

    async def accept_invitation(self, token: str, sign_up: SignUpInput) -> SignedIn:
        """Accept an invitation, once: make a new user, or an existing one whose password is right, a member.

        Return a new session in the organisation.

        Raises:
            InvitationVoid: the token's invitation is not pending, or is for another address.
            InvalidCredentials: the address has an account with another password.
            SecondFactorRequired: the user exists and has a second factor; the invitation is accepted with the code.
            UnacceptableValue: the address, the name or the password is invalid.
            TooManySignIns: the address or the account has no sign-in attempts left.
            PasswordsBusy: too many passwords are being hashed.
        """
        await self.invitations.open(token)  # first: later errors reveal more
        email = checked_email(sign_up.email)
        invitation = await self._open(token, email)
        user = await self.sign_in.verify(email, sign_up.password, sign_up.address)
        if user is None:
            return await self.join(token, await self._add(email, sign_up))
        await self.sign_in.require_no_code(user, invitation.organisation, token)
        return await self.join(token, user)

    async def join(self, token: str, user: User) -> SignedIn:
        """Make a just authenticated user a member by an invitation, once, and return a new session in the organisation.

        Raises:
            InvitationVoid: the token's invitation is not pending, or is for another address.
        """
        invitation = await self._open(token, user.email)
        await self.invitations.claim(token, user.id)
        await self.members.join(invitation.organisation, user.id, invitation.role, self.clock())
        return await self.sessions.begin(user, invitation.organisation)

    async def register(self, sign_up: SignUpInput, organisation: str) -> SignedIn:
        """Create a user account, and a new organisation without credit that the user owns; return a new session there.

        An account without an organisation (an interrupted sign-up) is used if the password is right, and it has no
        second factor.

        Raises:
            SignUpClosed: the operator does not allow self-registration.
            EmailTaken: the address has an account with an organisation, or with another password.
            UnacceptableValue: the address, a name or the password is invalid.
            TooManySignIns: the address or the account has no sign-in attempts left.
            PasswordsBusy: too many passwords are being hashed.
        """
        if not self.registration_open:
            raise SignUpClosed("by invitation only")
        email, name = checked_email(sign_up.email), checked_name(organisation, "organisation")
        try:
            user = await self.sign_in.verify(email, sign_up.password, sign_up.address)
        except InvalidCredentials as error:
            raise EmailTaken("another user has this address") from error
        if user is not None and await self._is_established(user):
            raise EmailTaken("has an account and an organisation, or a second factor, which is not asked for here")
        user = user or await self._add(email, sign_up)
        created = await self.projects.create_organisation(name)
        await self.members.join(created.id, user.id, Role.OWNER, self.clock())
        return await self.sessions.begin(user, created.id)

    async def _is_established(self, user: User) -> bool:
        """Return whether the user has an organisation or a second factor."""
        return bool(await self.memberships.of_user(user.id)) or await self.sign_in.factors.required(user.id)

    async def _open(self, token: str, email: str) -> Invitation:
        """Return the pending invitation of a token, if the user with this address may accept it.

        Raises:
            InvitationVoid: it is not pending, its maker may not give its role any more, or it is for another address.
        """
        invitation = await self.invitations.open(token)
        await self._require_inviter(invitation)
        if invitation.email and fold_email(invitation.email) != fold_email(email):
            raise InvitationVoid("for another e-mail address")
        return invitation

    async def _require_inviter(self, invitation: Invitation) -> None:
        """Raise `InvitationVoid` unless the user who made the invitation, if one did, may still give its role."""
        inviter = Actor(invitation.organisation, invitation.invited_by, Role.OWNER)
        try:
            (await current_actor(self.memberships, inviter)).require_over(invitation.role)
        except NotPermitted as error:
            raise InvitationVoid("its maker may not give this role any more") from error

    async def _add(self, email: str, sign_up: SignUpInput) -> User:
        name = checked_name(sign_up.name)
        user = User(new_id("user-"), email, name, self.clock(), await self.passwords.hash(sign_up.password))
        if not await self.users.add(user):
            raise EmailTaken("taken concurrently")
        return user
