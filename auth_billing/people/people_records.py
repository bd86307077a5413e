"""Defines the stored form of users, memberships and invitations, and the interfaces of their stores.

Times are Unix seconds. Each method of a port raises `StoreUnavailable` when the store does not answer in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from auth_billing.access.roles import Role


@dataclass(frozen=True)
class User:
    """A user. `email` is unique in its case-folded form (`input_normalisation.fold_email`)."""

    id: str
    email: str
    name: str
    created: float
    password: str = field(repr=False)
    """Argon2id's encoded hash: parameters, salt and digest; empty: the user has no password."""
    version: int = 0
    """Incremented to end all sessions of the user: a session opened under a lower version is invalid."""


@dataclass(frozen=True)
class Membership:
    """A user's role in an organisation."""

    organisation: str
    user: str
    role: Role
    added: float
    issuer: str = ""
    """Issuer whose groups give and take this membership; empty: members of the organisation do."""
    confirmed: float = 0.0
    """Time at which the issuer's groups last gave the role."""
    former: Role | None = None
    """The highest role that the user had in the organisation before, also in earlier memberships; `None`: no other."""

    @property
    def highest_role(self) -> Role:
        """The highest role that the member has, or had before, in the organisation."""
        return max(self.role, self.former or self.role, key=lambda role: role.rank)


class InvitationStatus(StrEnum):
    """State of an invitation."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True)
class Invitation:
    """An invitation to an organisation. Its token is not stored, only the token's digest."""

    id: str
    digest: bytes = field(repr=False)
    organisation: str
    role: Role
    email: str
    """Address of the only user who may accept it; empty: anyone with the link."""
    created: float
    expires: float
    invited_by: str
    """Id of the user who made it; empty: the launcher or an operator's command."""
    accepted: float | None = None
    accepted_by: str = ""
    revoked: float | None = None

    def status(self, now: float) -> InvitationStatus:
        """Return the invitation's state at `now` (Unix seconds): pending, accepted, expired or revoked."""
        if self.accepted is not None:
            return InvitationStatus.ACCEPTED
        if self.revoked is not None:
            return InvitationStatus.REVOKED
        return InvitationStatus.PENDING if now < self.expires else InvitationStatus.EXPIRED


class UserStore(Protocol):
    """Store of users."""

    async def add(self, user: User) -> bool:
        """Store a new user durably; return false if the e-mail address is taken."""
        ...

    async def find(self, user_id: str) -> User | None:
        """Return the user with this id, or `None` if there is none."""
        ...

    async def find_by_email(self, email: str) -> User | None:
        """Return the user with this e-mail address, compared case-folded, or `None` if there is none."""
        ...

    async def find_all(self, user_ids: Sequence[str]) -> list[User]:
        """Return the users with these ids, in any order; unknown ids are left out."""
        ...

    async def rehash(self, user_id: str, old: str, new: str) -> bool:
        """Replace the hash `old` of a user's unchanged password by `new`; return false if another hash is stored."""
        ...

    async def change_password(self, user_id: str, old: str, new: str) -> User | None:
        """Replace the password hash `old` by `new` and increment the user's version, which ends all sessions.

        Return the changed user, or `None` if `old` is no longer the stored hash.
        """
        ...

    async def reset_password(self, user_id: str, version: int, new: str) -> User | None:
        """Replace the password hash by `new` and increment the user's version, which ends all sessions.

        Return the changed user, or `None` if the user's version is not `version` any more.
        """
        ...

    async def end_sessions(self, user_id: str) -> None:
        """End all browser sessions of a user, by incrementing the user's version."""
        ...


class MembershipStore(Protocol):
    """Store of memberships."""

    async def add(self, membership: Membership) -> None:
        """Store a user's new membership of an organisation durably; an existing one is left unchanged.

        The highest role of an earlier membership is stored as its `former`.
        """
        ...

    async def find(self, organisation: str, user: str) -> Membership | None:
        """Return a user's membership of an organisation, or `None` if the user is no member."""
        ...

    async def of_user(self, user: str) -> list[Membership]:
        """Return a user's memberships of all organisations, oldest first."""
        ...

    async def of_organisation(self, organisation: str) -> list[Membership]:
        """Return all memberships of an organisation, oldest first."""
        ...

    async def has_owner(self, organisation: str, besides: str = "") -> bool:
        """Return whether the organisation has an owner other than the user `besides`."""
        ...

    async def set_role(self, organisation: str, user: str, role: Role, former: Role | None = None) -> bool:
        """Set a member's role, and the highest `former` one if given; return false if there is no such member."""
        ...

    async def confirm(self, organisation: str, user: str, now: float) -> None:
        """Note that the identity provider's groups gave a membership its role at `now` (Unix seconds)."""
        ...

    async def unconfirmed(self, since: float) -> list[Membership]:
        """Return all memberships from an identity provider's groups that were last confirmed before `since`.

        `since` is in Unix seconds.
        """
        ...

    async def remove(self, organisation: str, user: str, unconfirmed_since: float | None = None) -> bool:
        """End a user's membership of an organisation; return false if there was none.

        Its highest role is kept for a later membership.

        `unconfirmed_since`: end it only if `unconfirmed` would return it for this time (Unix seconds), in one update.
        """
        ...


class InvitationStore(Protocol):
    """Store of invitations."""

    async def add(self, invitation: Invitation) -> None:
        """Store a new invitation to an organisation durably."""
        ...

    async def find(self, organisation: str, invitation_id: str) -> Invitation | None:
        """Return the invitation of an organisation with this id, in any state, or `None` if there is none."""
        ...

    async def find_by_digest(self, digest: bytes) -> Invitation | None:
        """Return the invitation whose token has this digest, in any state, or `None` if there is none."""
        ...

    async def of_organisation(self, organisation: str) -> list[Invitation]:
        """Return all invitations of an organisation in any state, newest first."""
        ...

    async def claim(self, digest: bytes, user: str, now: float) -> bool:
        """Mark the invitation whose token has this digest as accepted by a user at `now` (Unix seconds).

        Return false, and change nothing, if the invitation is not pending.
        """
        ...

    async def revoke(self, organisation: str, invitation_id: str, now: float) -> bool:
        """Revoke an organisation's invitation at `now` (Unix seconds); return false if it was accepted or revoked."""
        ...

    async def revoke_unowned(self, organisation: str, now: float) -> None:
        """Revoke at `now` (Unix seconds) an organisation's pending invitations of a first owner.

        These are for the role of owner, for any e-mail address, and made by no user.
        """
        ...
