"""Routes of `/v1/organization/.../model_permissions`: which models a project, a role or a user may use."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from auth_billing.access.model_access import UNRESTRICTED, ModelPolicy, PolicyMode
from auth_billing.people.model_policies import PolicySubject, audit_entry_of
from gateway.http.api_documentation import document_route
from gateway.http.json_response import json_response
from gateway.http.routes.organization.access import Administrator, Reader, Writer, admin_body
from gateway.openai.organization.model_permissions import (
    ModelPermissions,
    ModelPermissionsDeleted,
    ModelPermissionsUpdate,
)

router = APIRouter(prefix="/v1/organization")

Update = Annotated[ModelPermissionsUpdate, Depends(admin_body(ModelPermissionsUpdate))]

PROJECT = "/projects/{project_id}/model_permissions"
ROLE = "/roles/{role}/model_permissions"
USER = "/users/{user_id}/model_permissions"


@router.get(PROJECT, **document_route(ModelPermissions))
async def retrieve_project_model_permissions(project_id: str, admin: Reader) -> Response:
    """Return which models may be used in a project, by all of its keys and service accounts.

    Answers `GET /v1/organization/projects/{project_id}/model_permissions`.
    """
    return await _retrieve(admin, PolicySubject("project", project_id))


@router.post(PROJECT, **document_route(ModelPermissions, body=ModelPermissionsUpdate))
async def modify_project_model_permissions(project_id: str, admin: Writer, body: Update) -> Response:
    """Set which models may be used in a project, by all of its keys and service accounts, within five seconds.

    Answers `POST /v1/organization/projects/{project_id}/model_permissions`.
    """
    return await _modify(admin, PolicySubject("project", project_id), body)


@router.delete(PROJECT, **document_route(ModelPermissionsDeleted))
async def delete_project_model_permissions(project_id: str, admin: Writer) -> Response:
    """Remove a project's restriction to certain models, so that it may use every model.

    Answers `DELETE /v1/organization/projects/{project_id}/model_permissions`.
    """
    return await _delete(admin, PolicySubject("project", project_id))


@router.get(ROLE, **document_route(ModelPermissions))
async def retrieve_role_model_permissions(role: str, admin: Reader) -> Response:
    """Return which models the members with a role may use (an extension).

    Answers `GET /v1/organization/roles/{role}/model_permissions`.
    """
    return await _retrieve(admin, PolicySubject("role", role))


@router.post(ROLE, **document_route(ModelPermissions, body=ModelPermissionsUpdate))
async def modify_role_model_permissions(role: str, admin: Writer, body: Update) -> Response:
    """Set which models the members with a role may use (an extension); those of administrators only owners set.

    Answers `POST /v1/organization/roles/{role}/model_permissions`. Owners can't be restricted.
    """
    return await _modify(admin, PolicySubject("role", role), body)


@router.delete(ROLE, **document_route(ModelPermissionsDeleted))
async def delete_role_model_permissions(role: str, admin: Writer) -> Response:
    """Remove the restriction of a role's members to certain models (an extension).

    Answers `DELETE /v1/organization/roles/{role}/model_permissions`.
    """
    return await _delete(admin, PolicySubject("role", role))


@router.get(USER, **document_route(ModelPermissions))
async def retrieve_user_model_permissions(user_id: str, admin: Reader) -> Response:
    """Return which models a member may use, by API keys and in the chat (an extension).

    Answers `GET /v1/organization/users/{user_id}/model_permissions`.
    """
    return await _retrieve(admin, PolicySubject("user", user_id))


@router.post(USER, **document_route(ModelPermissions, body=ModelPermissionsUpdate))
async def modify_user_model_permissions(user_id: str, admin: Writer, body: Update) -> Response:
    """Set which models a member may use (an extension); those of administrators only owners set.

    Answers `POST /v1/organization/users/{user_id}/model_permissions`. Owners can't be restricted.
    """
    return await _modify(admin, PolicySubject("user", user_id), body)


@router.delete(USER, **document_route(ModelPermissionsDeleted))
async def delete_user_model_permissions(user_id: str, admin: Writer) -> Response:
    """Remove a member's restriction to certain models (an extension).

    Answers `DELETE /v1/organization/users/{user_id}/model_permissions`.
    """
    return await _delete(admin, PolicySubject("user", user_id))


async def _retrieve(admin: Administrator, subject: PolicySubject) -> Response:
    return _shown(subject, await admin.administration.model_policies.find(admin.organisation, subject))


async def _modify(admin: Administrator, subject: PolicySubject, body: ModelPermissionsUpdate) -> Response:
    policy = ModelPolicy(PolicyMode(body.mode), frozenset(body.model_ids))
    await _set(admin, subject, policy)
    return _shown(subject, policy)


async def _delete(admin: Administrator, subject: PolicySubject) -> Response:
    await _set(admin, subject, UNRESTRICTED)
    return json_response(ModelPermissionsDeleted(object=f"{subject.kind}.model_permissions.deleted"))


async def _set(admin: Administrator, subject: PolicySubject, policy: ModelPolicy) -> None:
    await admin.administration.model_policies.set(admin.actor, subject, policy)
    event, project, details = audit_entry_of(subject, policy)
    await admin.record(event, subject.id, project=project, details=details)


def _shown(subject: PolicySubject, policy: ModelPolicy) -> Response:
    return json_response(
        ModelPermissions(
            object=f"{subject.kind}.model_permissions", mode=policy.mode.value, model_ids=sorted(policy.models)
        )
    )
