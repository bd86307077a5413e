"""Stored form of organisations and projects, and the port of their store.

Times are Unix seconds. Each method of the port raises `StoreUnavailable` when the store does not answer in time.
"""

from __future__ import annotations

from collections.abc import Sequence
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
        """Store an organisation unless one with its id is stored."""
        ...

    async def ensure_project(self, project: Project) -> None:
        """Store a project unless one with its id is stored."""
        ...

    async def find_organisation(self, organisation: str) -> Organisation | None:
        """Return the organisation with this id, or `None`."""
        ...

    async def find_organisations(self, ids: Sequence[str]) -> list[Organisation]:
        """Return the organisations among these ids."""
        ...

    async def page(self, after: str, limit: int) -> list[Organisation]:
        """Return up to `limit` organisations whose ids sort after `after`, sorted by id."""
        ...

    async def projects(self, organisation: str) -> list[Project]:
        """Return all projects of an organisation, archived ones included, oldest first."""
        ...

    async def find_project(self, organisation: str, project: str) -> Project | None:
        """Return the organisation's project with this id, archived or not, or `None`."""
        ...

    async def rename_project(self, organisation: str, project: str, name: str) -> None:
        """Change the project's name, if the project exists."""
        ...

    async def archive_project(self, organisation: str, project: str, now: float) -> None:
        """Archive a project at `now` (Unix seconds); no effect if it is archived or does not exist."""
        ...

    async def add_owner(self, organisation: str, user: str) -> None:
        """Add a user id to the organisation's list of owners; no effect if it is there."""
        ...

    async def give_up_owner(self, organisation: str, user: str) -> bool:
        """Remove a user id from the organisation's list of owners; false, and no change, if no owner would remain."""
        ...
