"""Resets passwords by a one-time link, made by an administrator, by the operator, or for a mail to the user.

A token is 256 random bits; the store keeps its HMAC under the installation's pepper, one per user, so a new link voids
the one before. A link is bound to the user's version, which its use increments: it works once, and any other change of
the password or sign-out everywhere voids it. It does not sign in, and a second factor stays as it is. Identities at the
identity provider are disconnected: a person who knew the old password may have connected one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from auth_billing.access.roles import Actor, Role
from auth_billing.errors import NoSuchRecord, NotPermitted, ResetLinkVoid
from auth_billing.people.account_rights import require_account_rights
from auth_billing.people.input_normalisation import is_reserved
from auth_billing.people.oidc.identity_records import IdentityStore
from auth_billing.people.passwords import Passwords
from auth_billing.people.people_records import MembershipStore, User, UserStore
from auth_billing.people.sessions import Sessions
from auth_billing.people.throttle import SignInThrottle

SECONDS_VALID = 3600
TOKEN_BYTES = 32
MAX_TOKEN = 64
"""Length of the longest token that is hashed, in characters."""


@dataclass(frozen=True)
class PasswordResetRecord:
    """The valid reset link of a user. Its token is not stored, only the token's digest. Times are Unix seconds."""

    id: str
    """Id of the user."""
    digest: bytes = field(repr=False)
    version: int
    """The user's version when the link was made; the link is void under another one."""
    expires: float
    organisation: str = ""
    """Organisation of the administrator who made the link; empty: the operator, or a mail to the user."""
    made_by: str = ""
    """Id of that administrator."""


class PasswordResetStore(Protocol):
    """Store of password reset links, one per user. Expired ones may be deleted."""

    async def put(self, reset: PasswordResetRecord) -> None:
        """Store a user's password reset link durably, in place of an earlier one."""
        ...

    async def find_by_digest(self, digest: bytes) -> PasswordResetRecord | None:
        """Return the password reset link whose token has this digest, even an expired one; `None` if there is none."""
        ...

    async def delete(self, user: str, digest: bytes) -> None:
        """Delete a user's password reset link, if it is still the one whose token has this digest."""
        ...


@dataclass(kw_only=True, eq=False, repr=False)
class ResetLinks:
    """Makes and checks password reset links."""

    users: UserStore
    memberships: MembershipStore
    store: PasswordResetStore
    pepper: bytes
    clock: Callable[[], float] = time.time

    async def make_for_member(self, actor: Actor, user_id: str) -> tuple[User, str]:
        """Make and store a password reset link for a member of the actor's organisation; return member and token.

        The token itself is not stored.

        Raises:
            NotPermitted: the actor may not act on this account (`account_rights`), or it has no password.
            NoSuchRecord: the organisation has no such member.
        """
        await require_account_rights(self.memberships, actor, user_id)
        user = await self.users.find(user_id)
        if user is None:
            raise NoSuchRecord(f"no user {user_id}")
        return user, await self._make(user, organisation=actor.organisation, made_by=actor.user)

    async def make(self, user: User) -> str:
        """Make and store a password reset link for a user; return the token.

        The caller acts by right of the operator or of the user's mailbox.

        Raises:
            NotPermitted: the account has no password: a local owner's, or one of an identity provider's users.
        """
        return await self._make(user)

    async def open(self, token: str) -> PasswordResetRecord:
        """Return the valid password reset link that a token belongs to, without using the link up.

        Raises:
            ResetLinkVoid: it is unknown, used, expired or replaced, or its maker has lost the right to make it.
        """
        reset = await self.store.find_by_digest(self._digest(token)) if len(token) <= MAX_TOKEN else None
        if reset is None or self.clock() >= reset.expires:
            raise ResetLinkVoid("unknown, used, expired or replaced")
        if reset.organisation:
            maker = Actor(reset.organisation, reset.made_by, Role.OWNER)
            try:
                await require_account_rights(self.memberships, maker, reset.id)
            except (NotPermitted, NoSuchRecord) as error:
                raise ResetLinkVoid("its maker may not make it any more") from error
        return reset

    async def _make(self, user: User, *, organisation: str = "", made_by: str = "") -> str:
        if is_reserved(user.email) or not user.password:
            raise NotPermitted(f"{user.email} does not sign in with a password")
        token, expires = secrets.token_urlsafe(TOKEN_BYTES), self.clock() + SECONDS_VALID
        await self.store.put(
            PasswordResetRecord(user.id, self._digest(token), user.version, expires, organisation, made_by)
        )
        return token

    def _digest(self, token: str) -> bytes:
        """Return the stored form of a token: its HMAC-SHA256, 32 bytes."""
        return hmac.digest(self.pepper, b"password-reset:" + token.encode(errors="replace"), hashlib.sha256)


@dataclass(frozen=True, repr=False)
class PasswordReset:
    """Sets passwords by reset links."""

    links: ResetLinks
    passwords: Passwords
    throttle: SignInThrottle
    identities: IdentityStore
    sessions: Sessions

    async def use(self, token: str, password: str, address: str) -> User:
        """Set the password of the user whose reset link has this token, once, and return the user.

        All sessions of the user end. The user's identities are disconnected, unless the user can't sign in with the
        password.

        Args:
            address: the client's network address.

        Raises:
            ResetLinkVoid: the link is not valid (any more).
            UnacceptableValue: the password is too short, too long, or has control characters; the link stays valid.
            TooManySignIns: the address has no attempts left.
            PasswordsBusy: too many passwords are being hashed.
        """
        await self.throttle.attempt_from(address)
        await self.links.open(token)
        hashed = await self.passwords.hash(password)
        reset = await self.links.open(token)  # hashing takes a while
        user = await self.links.users.reset_password(reset.id, reset.version, hashed)
        if user is None:
            raise ResetLinkVoid("used, or the password was changed")
        if any(map(self.sessions.accepts_password, await self.links.memberships.of_user(user.id))):
            await self.identities.remove_all(user.id)
        await self.links.store.delete(user.id, reset.digest)
        return user
