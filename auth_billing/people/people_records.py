"""Users, memberships and invitations as they are stored, and the ports to where that is. Knows no MongoDB.

Times are Unix seconds. Each method of a port raises `StoreUnavailable` when the store does not answer in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from auth_billing.people.roles import Role


@dataclass(frozen=True)
class User:
    """A person. `email` is unique in its folded form (`given_text.fold_email`)."""

    id: str
    email: str
    name: str
    created: float
    password: str = field(repr=False)
    """argon2id's own text: parameters, salt and hash."""
    version: int = 0
    """Grows when all sessions of the person are to end: what was begun under a lower one is over."""


@dataclass(frozen=True)
class Membership:
    """A person's part in an organisation."""

    organisation: str
    user: str
    role: Role
    added: float


class InvitationStatus(StrEnum):
    """What has become of an invitation."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True)
class Invitation:
    """A way into an organisation, once. The token that opens it is known to nobody but who was given it."""

    id: str
    digest: bytes = field(repr=False)
    organisation: str
    role: Role
    email: str
    """Whom it is for; empty: whoever has the link."""
    created: float
    expires: float
    invited_by: str
    """A user's id; empty: the launcher or a command of the operator's."""
    accepted: float | None = None
    accepted_by: str = ""
    revoked: float | None = None

    def status(self, now: float) -> InvitationStatus:
        """Where it stands."""
        if self.accepted is not None:
            return InvitationStatus.ACCEPTED
        if self.revoked is not None:
            return InvitationStatus.REVOKED
        return InvitationStatus.PENDING if now < self.expires else InvitationStatus.EXPIRED


class UserStore(Protocol):
    """Where users are."""

    async def add(self, user: User) -> bool:
        """Store a new one, durably; false if the e-mail address is somebody's already."""
        ...

    async def find(self, user_id: str) -> User | None:
        """The user with this id."""
        ...

    async def find_by_email(self, email: str) -> User | None:
        """The user with this address, in whatever form it is written."""
        ...

    async def find_all(self, user_ids: Sequence[str]) -> list[User]:
        """Those of these ids that there are, in any order."""
        ...

    async def rehash(self, user_id: str, old: str, new: str) -> bool:
        """Keep the same password under another hash; false if it has been changed meanwhile."""
        ...

    async def change_password(self, user_id: str, old: str, new: str) -> User | None:
        """Put another password in the place of `old` and raise the version; `None` if `old` has gone meanwhile."""
        ...

    async def end_sessions(self, user_id: str) -> None:
        """Raise the version."""
        ...


class MembershipStore(Protocol):
    """Who belongs to which organisation."""

    async def add(self, membership: Membership) -> None:
        """Store a new one, durably; one that is there stays as it is."""
        ...

    async def find(self, organisation: str, user: str) -> Membership | None:
        """A person's membership of an organisation."""
        ...

    async def of_user(self, user: str) -> list[Membership]:
        """All memberships of a person, oldest first."""
        ...

    async def of_organisation(self, organisation: str) -> list[Membership]:
        """All members of an organisation, oldest first."""
        ...

    async def has_owner(self, organisation: str, besides: str = "") -> bool:
        """Whether anybody owns it, besides this user."""
        ...

    async def set_role(self, organisation: str, user: str, role: Role) -> bool:
        """Give a member another role; false if there is no such member."""
        ...

    async def remove(self, organisation: str, user: str) -> bool:
        """End a membership; false if there was none."""
        ...


class InvitationStore(Protocol):
    """Where invitations are."""

    async def add(self, invitation: Invitation) -> None:
        """Store a new one, durably."""
        ...

    async def find(self, organisation: str, invitation_id: str) -> Invitation | None:
        """The organisation's invitation with this id."""
        ...

    async def find_by_digest(self, digest: bytes) -> Invitation | None:
        """The invitation that a token opens."""
        ...

    async def of_organisation(self, organisation: str) -> list[Invitation]:
        """All invitations of an organisation, newest first."""
        ...

    async def claim(self, digest: bytes, user: str, now: float) -> bool:
        """Use it up for this user: true for one user only, and for him however often. False if it is void."""
        ...

    async def revoke(self, organisation: str, invitation_id: str, now: float) -> bool:
        """Make it void; false if it is no longer open."""
        ...

    async def revoke_unowned(self, organisation: str, now: float) -> None:
        """Make void all open ones that no person has made."""
        ...
