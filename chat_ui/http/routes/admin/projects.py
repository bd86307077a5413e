"""Routes of the organisation's projects: `/api/admin/projects`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from auth_billing.audit_log import Event
from auth_billing.people.organisation_records import Project as ProjectRecord
from chat_ui.chat import chat_of, doer
from chat_ui.http.answers import shown
from chat_ui.http.bodies import NoBody, body_of
from chat_ui.http.guard import Admin
from chat_ui.http.shapes.administration import Project, ProjectBody, ProjectList
from router.messages import KeySet

router = APIRouter(prefix="/projects")

Name = Annotated[ProjectBody, Depends(body_of(ProjectBody))]


@router.get("", response_model=ProjectList)
async def list_projects(request: Request, caller: Admin) -> Response:
    """List all projects, archived ones too, oldest first."""
    projects = await chat_of(request).office.administration.projects.all(caller.organisation, archived=True)
    return shown(ProjectList(projects=[_project(each) for each in projects]))


@router.post("", response_model=Project, status_code=201)
async def create_project(request: Request, caller: Admin, body: Name) -> Response:
    """Create a project."""
    chat = chat_of(request)
    project = await chat.office.administration.projects.create(caller.actor, body.name)
    await _record(request, caller, Event.PROJECT_CREATED, project)
    return shown(_project(project), 201)


@router.patch("/{project_id}", response_model=Project)
async def rename_project(request: Request, project_id: str, caller: Admin, body: Name) -> Response:
    """Rename a project."""
    project = await chat_of(request).office.administration.projects.rename(caller.actor, project_id, body.name)
    await _record(request, caller, Event.PROJECT_UPDATED, project)
    return shown(_project(project))


@router.post("/{project_id}/archive", response_model=Project)
async def archive_project(
    request: Request, project_id: str, caller: Admin, _none: Annotated[NoBody, Depends(body_of(NoBody))]
) -> Response:
    """Archive a project permanently and revoke its keys."""
    administration = chat_of(request).office.administration
    project = await administration.projects.archive(caller.actor, project_id)
    await administration.keys.revoke_all(KeySet(organisation=caller.organisation, project=project_id))
    await _record(request, caller, Event.PROJECT_ARCHIVED, project)
    return shown(_project(project))


async def _record(request: Request, caller: Admin, event: Event, project: ProjectRecord) -> None:
    who, details = doer(request, caller.user), {"name": project.name}
    await chat_of(request).audit.record(
        caller.organisation, event, project.id, who, project=project.id, details=details
    )


def _project(record: ProjectRecord) -> Project:
    return Project(id=record.id, name=record.name, created=record.created, archived=record.archived)
