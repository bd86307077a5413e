"""Defines the roles of members in an organisation, and checks whether an actor's role allows an action."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from auth_billing.errors import NotPermitted

OPERATORS = "development"
"""Id of the organisation whose administrators operate the installation: the development organisation."""


class Role(StrEnum):
    """A member's role in an organisation, highest first; each includes the rights of the next."""

    OWNER = "owner"
    """All rights, including owners and billing."""
    ADMIN = "admin"
    """Manages members (except owners), projects, keys and limits."""
    MEMBER = "member"
    """Uses the models."""
    VIEWER = "viewer"
    """Sees usage; can't use the models."""

    @property
    def rank(self) -> int:
        """Position of the role in the hierarchy, from 1 (viewer) to 4 (owner); a greater rank has more rights."""
        return len(Role) - list(Role).index(self)


@dataclass(frozen=True)
class Actor:
    """The subject of a permission check: a user, or (`user` is empty) an operator's key or command."""

    organisation: str
    user: str
    role: Role

    def require(self, role: Role) -> None:
        """Check that the actor has `role` or a higher role.

        Raises:
            NotPermitted: the actor's role is lower.
        """
        if self.role.rank < role.rank:
            raise NotPermitted(f"needs the role {role.value}")

    def require_over(self, *roles: Role) -> None:
        """Check that the actor may assign and withdraw all of `roles`.

        Administrators and owners may, up to their own role.

        Raises:
            NotPermitted: the actor's role is too low.
        """
        self.require(max((Role.ADMIN, *roles), key=lambda role: role.rank))

    def require_limits_of(self, role: Role) -> None:
        """Check that the actor may change the limits of a member with `role`.

        Owners may, and administrators those of members and viewers, so that none lifts an own limit.

        Raises:
            NotPermitted: the actor's role is too low.
        """
        self.require(Role.OWNER if role.rank >= Role.ADMIN.rank else Role.ADMIN)
