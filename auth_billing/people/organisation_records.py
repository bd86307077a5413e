"""Defines the stored form of organisations and projects, and the interface of their store.

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
    audits_documents: bool = False
    """Whether accesses to its documents are recorded in its audit log."""


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
        """Store a new organisation; no effect if one with its id is stored."""
        ...

    async def ensure_project(self, project: Project) -> None:
        """Store a new project; no effect if one with its id is stored."""
        ...

    async def find_organisation(self, organisation: str) -> Organisation | None:
        """Return the organisation with this id, or `None` if there is none."""
        ...

    async def find_organisations(self, ids: Sequence[str]) -> list[Organisation]:
        """Return the organisations with these ids, in any order; unknown ids are left out."""
        ...

    async def page(self, after: str, limit: int) -> list[Organisation]:
        """Return a page of all organisations: up to `limit` whose ids sort after `after`, sorted by id."""
        ...

    async def projects(self, organisation: str) -> list[Project]:
        """Return all projects of an organisation, archived ones included, oldest first."""
        ...

    async def find_project(self, organisation: str, project: str) -> Project | None:
        """Return the organisation's project with this id, archived or not, or `None`."""
        ...

    async def rename_project(self, organisation: str, project: str, name: str) -> None:
        """Change the name of an organisation's project; no effect if there is no such project."""
        ...

    async def archive_project(self, organisation: str, project: str, now: float) -> None:
        """Mark a project as archived at `now` (Unix seconds); no effect if it is archived or does not exist."""
        ...

    async def set_document_audit(self, organisation: str, *, on: bool) -> None:
        """Set whether accesses to an organisation's documents are recorded; no effect if there is no such one."""
        ...

    async def add_owner(self, organisation: str, user: str) -> None:
        """Add a user id to an organisation's list of owners; no effect if it is there."""
        ...

    async def give_up_owner(self, organisation: str, user: str) -> bool:
        """Remove a user id from an organisation's owners; return false, and change nothing, if none would remain."""
        ...
