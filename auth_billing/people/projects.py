"""Creates organisations; creates, finds, renames and archives projects, which group API keys, budgets and limits."""

from __future__ import annotations

import time
from collections.abc import Callable

from auth_billing.access.roles import Actor, Role
from auth_billing.errors import NoSuchRecord
from auth_billing.ids import new_id
from auth_billing.people.input_normalisation import checked_name
from auth_billing.people.organisation_records import Organisation, OrganisationStore, Project

DEFAULT_PROJECT = "Default"


class Projects:
    """Creates, finds, renames and archives projects; creates organisations."""

    def __init__(self, accounts: OrganisationStore, clock: Callable[[], float] = time.time) -> None:
        self._accounts = accounts
        self._clock = clock

    async def create_organisation(self, name: str) -> Organisation:
        """Create and store an organisation with one project, and return it. It has no members and no credit yet."""
        organisation = Organisation(new_id("org-"), checked_name(name, "organisation"), self._clock())
        await self._accounts.ensure_organisation(organisation)
        await self._accounts.ensure_project(
            Project(new_id("proj_"), organisation.id, DEFAULT_PROJECT, organisation.created)
        )
        return organisation

    async def organisation(self, organisation: str) -> Organisation:
        """Return the organisation with this id.

        Raises:
            NoSuchRecord: there is no such organisation.
        """
        found = await self._accounts.find_organisation(organisation)
        if found is None:
            raise NoSuchRecord(f"no organisation {organisation}")
        return found

    async def all(self, organisation: str, *, archived: bool = False) -> list[Project]:
        """Return all projects of an organisation, oldest first; with `archived`, archived ones too."""
        projects = await self._accounts.projects(organisation)
        return [project for project in projects if archived or project.archived is None]

    async def default(self, organisation: str) -> Project:
        """Return the organisation's oldest project that is not archived.

        Raises:
            NoSuchRecord: the organisation has no project that is not archived.
        """
        projects = await self.all(organisation)
        if not projects:
            raise NoSuchRecord(f"no project of {organisation} is in use")
        return projects[0]

    async def find(self, organisation: str, project_id: str) -> Project:
        """Return the project of an organisation that has this id, archived or not.

        Raises:
            NoSuchRecord: the organisation has no project with this id.
        """
        project = await self._accounts.find_project(organisation, project_id)
        if project is None:
            raise NoSuchRecord(f"no project {project_id} of {organisation}")
        return project

    async def find_active(self, organisation: str, project_id: str) -> Project:
        """Return the project of an organisation that has this id, if it is not archived.

        Raises:
            NoSuchRecord: the organisation has no such project, or it is archived.
        """
        project = await self.find(organisation, project_id)
        if project.archived is not None:
            raise NoSuchRecord(f"project {project_id} is archived")
        return project

    async def create(self, actor: Actor, name: str) -> Project:
        """Create a project in the actor's organisation, and return it.

        Raises:
            NotPermitted: the actor's role is below administrator.
            UnacceptableValue: the name is invalid.
        """
        actor.require(Role.ADMIN)
        project = Project(new_id("proj_"), actor.organisation, checked_name(name), self._clock())
        await self._accounts.ensure_project(project)
        return project

    async def rename(self, actor: Actor, project_id: str, name: str) -> Project:
        """Change a project's name and return the changed project.

        Raises:
            NotPermitted: the actor's role is below administrator.
            NoSuchRecord: the organisation has no project with this id.
            UnacceptableValue: the name is invalid.
        """
        actor.require(Role.ADMIN)
        await self._accounts.rename_project(actor.organisation, project_id, checked_name(name))
        return await self.find(actor.organisation, project_id)

    async def archive(self, actor: Actor, project_id: str) -> Project:
        """Archive a project of the actor's organisation permanently and return it; no effect if it is archived.

        The caller revokes the project's API keys.

        Raises:
            NotPermitted: the actor's role is below administrator.
            NoSuchRecord: the organisation has no project with this id.
        """
        actor.require(Role.ADMIN)
        await self._accounts.archive_project(actor.organisation, project_id, self._clock())
        return await self.find(actor.organisation, project_id)
