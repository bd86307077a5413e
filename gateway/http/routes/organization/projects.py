"""Routes of `/v1/organization/projects`: list, create, rename and archive projects, and list a project's users."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from auth_billing.access.roles import Role
from auth_billing.audit_log import Event
from auth_billing.people.members import Member
from auth_billing.people.organisation_records import Project as ProjectRecord
from gateway.http.api_documentation import document_route
from gateway.http.json_response import json_response
from gateway.http.pagination import page_of, query_of
from gateway.http.routes.organization.access import Reader, Writer, admin_body
from gateway.openai.organization.projects import (
    Project,
    ProjectCreate,
    ProjectList,
    ProjectQuery,
    ProjectUpdate,
    ProjectUser,
    ProjectUserList,
)
from gateway.openai.pagination import PageQuery
from router.messages import KeySet

router = APIRouter(prefix="/v1/organization/projects")


@router.get("", **document_route(ProjectList, query=ProjectQuery))
async def list_projects(admin: Reader, query: Annotated[ProjectQuery, Depends(query_of(ProjectQuery))]) -> Response:
    """List a page of the organisation's projects, oldest first (`GET /v1/organization/projects`)."""
    found = await admin.administration.projects.all(admin.organisation, archived=query.include_archived)
    return json_response(page_of(ProjectList, [_project(each) for each in found], query))


@router.post("", **document_route(Project, body=ProjectCreate))
async def create_project(admin: Writer, body: Annotated[ProjectCreate, Depends(admin_body(ProjectCreate))]) -> Response:
    """Create a project of the organisation (`POST /v1/organization/projects`)."""
    project = await admin.administration.projects.create(admin.actor, body.name)
    await admin.record(Event.PROJECT_CREATED, project.id, project=project.id, details={"name": project.name})
    return json_response(_project(project))


@router.get("/{project_id}", **document_route(Project))
async def retrieve_project(project_id: str, admin: Reader) -> Response:
    """Return one project of the organisation (`GET /v1/organization/projects/{project_id}`)."""
    return json_response(_project(await admin.administration.projects.find(admin.organisation, project_id)))


@router.post("/{project_id}", **document_route(Project, body=ProjectUpdate))
async def modify_project(
    project_id: str, admin: Writer, body: Annotated[ProjectUpdate, Depends(admin_body(ProjectUpdate))]
) -> Response:
    """Rename one project of the organisation (`POST /v1/organization/projects/{project_id}`)."""
    projects = admin.administration.projects
    project = await projects.find(admin.organisation, project_id)
    if body.name is not None:
        project = await projects.rename(admin.actor, project_id, body.name)
        await admin.record(Event.PROJECT_UPDATED, project.id, project=project.id, details={"name": project.name})
    return json_response(_project(project))


@router.post("/{project_id}/archive", **document_route(Project))
async def archive_project(project_id: str, admin: Writer) -> Response:
    """Archive one project permanently and revoke its API keys.

    Answers `POST /v1/organization/projects/{project_id}/archive`.
    """
    project = await admin.administration.projects.archive(admin.actor, project_id)
    await admin.administration.keys.revoke_all(KeySet(organisation=admin.organisation, project=project_id))
    await admin.record(Event.PROJECT_ARCHIVED, project.id, project=project.id)
    return json_response(_project(project))


@router.get("/{project_id}/users", **document_route(ProjectUserList, query=PageQuery))
async def list_project_users(
    project_id: str, admin: Reader, query: Annotated[PageQuery, Depends(query_of(PageQuery))]
) -> Response:
    """List a page of a project's users, who are all members of the organisation.

    Answers `GET /v1/organization/projects/{project_id}/users`.
    """
    await admin.administration.projects.find(admin.organisation, project_id)
    members = await admin.administration.members.all(admin.organisation)
    return json_response(page_of(ProjectUserList, [_user(each) for each in members], query))


@router.get("/{project_id}/users/{user_id}", **document_route(ProjectUser))
async def retrieve_project_user(project_id: str, user_id: str, admin: Reader) -> Response:
    """Return one user of a project: any member of the organisation.

    Answers `GET /v1/organization/projects/{project_id}/users/{user_id}`.
    """
    await admin.administration.projects.find(admin.organisation, project_id)
    return json_response(_user(await admin.administration.members.find(admin.organisation, user_id)))


def _project(record: ProjectRecord) -> Project:
    return Project(
        id=record.id,
        name=record.name,
        created_at=int(record.created),
        archived_at=None if record.archived is None else int(record.archived),
        status="active" if record.archived is None else "archived",
    )


def _user(member: Member) -> ProjectUser:
    return ProjectUser(
        id=member.user.id,
        name=member.user.name,
        email=member.user.email,
        role="owner" if member.role.rank >= Role.ADMIN.rank else "member",
        added_at=int(member.added),
    )
