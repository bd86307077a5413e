"""Stored form of organisations and projects, and the port of their store.

Times are Unix seconds. Each method of the port raises `StoreUnavailable` when the store does not answer in time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Organisation:
    """An organisation: the tenant of jobs and the owner of a balance."""

    id: str
    name: str
    created: float


@dataclass(frozen=True)
class Project:
    """A part of an organisation with its own API keys."""

    id: str
    organisation: str
    name: str
    created: float
    archived: float | None = None
    """When it was archived; `None`: in use."""


class OrganisationStore(Protocol):
    """Store of organisations and projects."""

    async def ensure_organisation(self, organisation: Organisation) -> None:
        """Store it unless its id exists."""
        ...

    async def ensure_project(self, project: Project) -> None:
        """Store it unless its id exists."""
        ...

    async def find_organisation(self, organisation: str) -> Organisation | None:
        """Return the organisation with this id."""
        ...

    async def projects(self, organisation: str) -> list[Project]:
        """Return all projects of an organisation, oldest first."""
        ...

    async def find_project(self, organisation: str, project: str) -> Project | None:
        """Return the organisation's project with this id."""
        ...

    async def rename_project(self, organisation: str, project: str, name: str) -> None:
        """Change the project's name, if the project exists."""
        ...

    async def archive_project(self, organisation: str, project: str, now: float) -> None:
        """Archive the project, if it exists and is not archived."""
        ...

    async def add_owner(self, organisation: str, user: str) -> None:
        """Add a user to the organisation's owners."""
        ...

    async def give_up_owner(self, organisation: str, user: str) -> bool:
        """Remove a user from the owners; return false and change nothing if no owner would remain."""
        ...
