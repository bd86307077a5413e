"""HTTP routes of the organisation's projects: `/api/admin/projects`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from auth_billing.audit_log import Event
from auth_billing.people.organisation_records import Project as ProjectRecord
from chat_ui.http.access_control import Admin
from chat_ui.http.request_bodies import EmptyJson
from chat_ui.http.responses import schema_response
from chat_ui.http.schemas.administration import Project, ProjectJson, ProjectList
from chat_ui.services import record_event, services_of
from router.messages import KeySet

router = APIRouter(prefix="/projects")


@router.get("", response_model=ProjectList)
async def list_projects(request: Request, caller: Admin) -> Response:
    """List all projects of the organisation, archived ones too, oldest first (`GET /api/admin/projects`)."""
    projects = await services_of(request).admin.administration.projects.all(caller.organisation, archived=True)
    return schema_response(ProjectList(projects=[Project.model_validate(each) for each in projects]))


@router.post("", response_model=Project, status_code=201)
async def create_project(request: Request, caller: Admin, body: ProjectJson) -> Response:
    """Create a project of the organisation and return it; it has no API keys yet (`POST /api/admin/projects`)."""
    services = services_of(request)
    project = await services.admin.administration.projects.create(caller.actor, body.name)
    await _record(request, caller, Event.PROJECT_CREATED, project)
    return schema_response(Project.model_validate(project), 201)


@router.patch("/{project_id}", response_model=Project)
async def rename_project(request: Request, project_id: str, caller: Admin, body: ProjectJson) -> Response:
    """Rename a project of the organisation, and return the project (`PATCH /api/admin/projects/{project_id}`)."""
    project = await services_of(request).admin.administration.projects.rename(caller.actor, project_id, body.name)
    await _record(request, caller, Event.PROJECT_UPDATED, project)
    return schema_response(Project.model_validate(project))


@router.post("/{project_id}/archive", response_model=Project)
async def archive_project(request: Request, project_id: str, caller: Admin, _empty: EmptyJson) -> Response:
    """Archive a project permanently and revoke its API keys (`POST /api/admin/projects/{project_id}/archive`)."""
    administration = services_of(request).admin.administration
    project = await administration.projects.archive(caller.actor, project_id)
    await administration.keys.revoke_all(KeySet(organisation=caller.organisation, project=project_id))
    await _record(request, caller, Event.PROJECT_ARCHIVED, project)
    return schema_response(Project.model_validate(project))


async def _record(request: Request, caller: Admin, event: Event, project: ProjectRecord) -> None:
    await record_event(request, caller, event, project.id, project=project.id, details={"name": project.name})
