"""Routes of `/v1/organization/projects/{project_id}/api_keys`: list, return and revoke a project's API keys.

Keys are created through service accounts.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from auth_billing.audit_log import Event
from gateway.http.api_documentation import document_route
from gateway.http.json_response import json_response
from gateway.http.pagination import page_of, query_of
from gateway.http.routes.organization.access import Reader, Writer
from gateway.http.routes.organization.key_owners import owners_of
from gateway.openai.organization.keys import (
    ProjectApiKey,
    ProjectApiKeyDeleted,
    ProjectApiKeyList,
    ProjectApiKeyQuery,
    parse_key_id,
)

router = APIRouter(prefix="/v1/organization/projects/{project_id}/api_keys")


@router.get("", **document_route(ProjectApiKeyList, query=ProjectApiKeyQuery))
async def list_api_keys(
    project_id: str, admin: Reader, query: Annotated[ProjectApiKeyQuery, Depends(query_of(ProjectApiKeyQuery))]
) -> Response:
    """List a page of a project's API keys that are not revoked, newest first.

    Answers `GET /v1/organization/projects/{project_id}/api_keys`.
    """
    owners = await owners_of(admin, project_id)
    records = await admin.administration.keys.all(admin.actor, project_id)
    keys = [owners.project_key(each) for each in records] if query.owner_project_access != "inactive" else []
    return json_response(page_of(ProjectApiKeyList, keys, query))


@router.get("/{api_key_id}", **document_route(ProjectApiKey))
async def retrieve_api_key(project_id: str, api_key_id: str, admin: Reader) -> Response:
    """Return one API key of a project, without its secret text.

    Answers `GET /v1/organization/projects/{project_id}/api_keys/{api_key_id}`.
    """
    owners = await owners_of(admin, project_id)
    record = await admin.administration.keys.find(admin.actor, project_id, parse_key_id(api_key_id))
    return json_response(owners.project_key(record))


@router.delete("/{api_key_id}", **document_route(ProjectApiKeyDeleted))
async def delete_api_key(project_id: str, api_key_id: str, admin: Writer) -> Response:
    """Revoke one API key of a project, in every gateway within seconds.

    Answers `DELETE /v1/organization/projects/{project_id}/api_keys/{api_key_id}`.
    """
    await admin.administration.keys.revoke(admin.actor, project_id, parse_key_id(api_key_id))
    await admin.record(Event.API_KEY_DELETED, api_key_id, project=project_id)
    return json_response(ProjectApiKeyDeleted(id=api_key_id))
