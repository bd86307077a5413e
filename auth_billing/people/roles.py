"""What people may do in an organisation: four roles, each with all that the next may. Knows no store and no HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from auth_billing.errors import NotPermitted


class Role(StrEnum):
    """A person's part in an organisation, highest first."""

    OWNER = "owner"
    """Everything, other owners and money included."""
    ADMIN = "admin"
    """People (but no owners), projects, keys, limits."""
    MEMBER = "member"
    """Uses the models."""
    VIEWER = "viewer"
    """Sees what was used, and spends nothing."""

    @property
    def rank(self) -> int:
        """Greater for those who may do more."""
        return len(Role) - list(Role).index(self)


@dataclass(frozen=True)
class Actor:
    """Who does something to an organisation: a person, or (`user` is empty) a key or a program of the operator's."""

    organisation: str
    user: str
    role: Role

    def require(self, role: Role) -> None:
        """See that the actor has this role at least.

        Raises:
            NotPermitted: it has not.
        """
        if self.role.rank < role.rank:
            raise NotPermitted(f"needs the role {role.value}")

    def require_over(self, *roles: Role) -> None:
        """See that the actor may give these roles and take them away: an administrator's, and none above his own.

        Raises:
            NotPermitted: he may not.
        """
        self.require(max((Role.ADMIN, *roles), key=lambda role: role.rank))
