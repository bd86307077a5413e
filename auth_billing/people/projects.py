"""Projects of an organisation: parts with keys, budgets and limits of their own. Knows none of those."""

from __future__ import annotations

import time
from collections.abc import Callable

from auth_billing.errors import NoSuchRecord
from auth_billing.ids import new_id
from auth_billing.people.given_text import checked_name
from auth_billing.people.roles import Actor, Role
from auth_billing.records import AccountStore, Organisation, Project

DEFAULT_PROJECT = "Default"


class Projects:
    """Organisations and their projects."""

    def __init__(self, accounts: AccountStore, clock: Callable[[], float] = time.time) -> None:
        self._accounts = accounts
        self._clock = clock

    async def found(self, name: str) -> Organisation:
        """A new organisation with one project; it has no people and no credit yet."""
        organisation = Organisation(new_id("org-"), checked_name(name, "organisation"), self._clock())
        await self._accounts.ensure_organisation(organisation)
        await self._accounts.ensure_project(
            Project(new_id("proj_"), organisation.id, DEFAULT_PROJECT, organisation.created)
        )
        return organisation

    async def organisation(self, organisation: str) -> Organisation:
        """The organisation with this id.

        Raises:
            NoSuchRecord: there is none.
        """
        found = await self._accounts.find_organisation(organisation)
        if found is None:
            raise NoSuchRecord(f"no organisation {organisation}")
        return found

    async def all(self, organisation: str, *, archived: bool = False) -> list[Project]:
        """The organisation's projects, oldest first; `archived`: those too that are no longer used."""
        projects = await self._accounts.projects(organisation)
        return [project for project in projects if archived or project.archived is None]

    async def default(self, organisation: str) -> Project:
        """Its oldest project that is used.

        Raises:
            NoSuchRecord: it has none.
        """
        projects = await self.all(organisation)
        if not projects:
            raise NoSuchRecord(f"no project of {organisation} is in use")
        return projects[0]

    async def find(self, organisation: str, project_id: str) -> Project:
        """One of them, archived or not.

        Raises:
            NoSuchRecord: it is not this organisation's.
        """
        project = await self._accounts.find_project(organisation, project_id)
        if project is None:
            raise NoSuchRecord(f"no project {project_id} of {organisation}")
        return project

    async def find_open(self, organisation: str, project_id: str) -> Project:
        """One that is in use.

        Raises:
            NoSuchRecord: it is not this organisation's, or archived.
        """
        project = await self.find(organisation, project_id)
        if project.archived is not None:
            raise NoSuchRecord(f"project {project_id} is archived")
        return project

    async def create(self, actor: Actor, name: str) -> Project:
        """A new project.

        Raises:
            NotPermitted, UnacceptableValue
        """
        actor.require(Role.ADMIN)
        project = Project(new_id("proj_"), actor.organisation, checked_name(name), self._clock())
        await self._accounts.ensure_project(project)
        return project

    async def rename(self, actor: Actor, project_id: str, name: str) -> Project:
        """Call it something else.

        Raises:
            NotPermitted, NoSuchRecord, UnacceptableValue
        """
        actor.require(Role.ADMIN)
        await self._accounts.rename_project(actor.organisation, project_id, checked_name(name))
        return await self.find(actor.organisation, project_id)

    async def archive(self, actor: Actor, project_id: str) -> Project:
        """Take it out of use for good; doing so twice changes nothing.

        Raises:
            NotPermitted, NoSuchRecord
        """
        actor.require(Role.ADMIN)
        await self._accounts.archive_project(actor.organisation, project_id, self._clock())
        return await self.find(actor.organisation, project_id)
