"""Routes of `/v1/organization/projects/{project_id}/service_accounts`: a project's service accounts and their keys."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from auth_billing.audit_log import Event
from auth_billing.keys.key_issuance import KeySpec
from auth_billing.keys.service_accounts import ServiceAccount as Record
from auth_billing.money.holds import key_budget
from gateway.http.api_documentation import document_route
from gateway.http.json_response import json_response
from gateway.http.pagination import page_of, query_of
from gateway.http.routes.organization.access import Administrator, Reader, Writer, admin_body
from gateway.openai.organization.keys import (
    CreatedKey,
    CreatedServiceAccount,
    KeyCreate,
    ServiceAccount,
    ServiceAccountCreate,
    ServiceAccountDeleted,
    ServiceAccountList,
    ServiceAccountUpdate,
    format_key_id,
)
from gateway.openai.pagination import PageQuery
from router.messages import KeySet

router = APIRouter(prefix="/v1/organization/projects/{project_id}/service_accounts")


@router.get("", **document_route(ServiceAccountList, query=PageQuery))
async def list_service_accounts(
    project_id: str, admin: Reader, query: Annotated[PageQuery, Depends(query_of(PageQuery))]
) -> Response:
    """List a page of a project's service accounts, oldest first.

    Answers `GET /v1/organization/projects/{project_id}/service_accounts`.
    """
    await admin.administration.projects.find(admin.organisation, project_id)
    found = await admin.administration.service_accounts.all(admin.organisation, project_id)
    return json_response(page_of(ServiceAccountList, [ServiceAccount(**_fields(each)) for each in found], query))


@router.post("", **document_route(CreatedServiceAccount, body=ServiceAccountCreate))
async def create_service_account(
    project_id: str, admin: Writer, body: Annotated[ServiceAccountCreate, Depends(admin_body(ServiceAccountCreate))]
) -> Response:
    """Create a service account, with an API key unless `create_service_account_only` is set.

    Answers `POST /v1/organization/projects/{project_id}/service_accounts`.
    """
    await admin.administration.projects.find_active(admin.organisation, project_id)
    account = await admin.administration.service_accounts.create(admin.actor, project_id, body.name)
    await admin.record(Event.SERVICE_ACCOUNT_CREATED, account.id, project=project_id, details={"name": account.name})
    key = None if body.create_service_account_only else await _new_key(admin, account, body)
    return json_response(CreatedServiceAccount(**_fields(account), api_key=key))


@router.get("/{service_account_id}", **document_route(ServiceAccount))
async def retrieve_service_account(project_id: str, service_account_id: str, admin: Reader) -> Response:
    """Return one service account of a project.

    Answers `GET /v1/organization/projects/{project_id}/service_accounts/{service_account_id}`.
    """
    accounts = admin.administration.service_accounts
    return json_response(
        ServiceAccount(**_fields(await accounts.find(admin.organisation, project_id, service_account_id)))
    )


@router.post("/{service_account_id}", **document_route(ServiceAccount, body=ServiceAccountUpdate))
async def modify_service_account(
    project_id: str,
    service_account_id: str,
    admin: Writer,
    body: Annotated[ServiceAccountUpdate, Depends(admin_body(ServiceAccountUpdate))],
) -> Response:
    """Rename one service account of a project.

    Answers `POST /v1/organization/projects/{project_id}/service_accounts/{service_account_id}`.
    """
    accounts = admin.administration.service_accounts
    account = await accounts.find(admin.organisation, project_id, service_account_id)
    if body.name is not None:
        account = await accounts.rename(admin.actor, project_id, service_account_id, body.name)
        details = {"name": account.name}
        await admin.record(Event.SERVICE_ACCOUNT_UPDATED, account.id, project=project_id, details=details)
    return json_response(ServiceAccount(**_fields(account)))


@router.delete("/{service_account_id}", **document_route(ServiceAccountDeleted))
async def delete_service_account(project_id: str, service_account_id: str, admin: Writer) -> Response:
    """Delete one service account of a project and revoke its API keys.

    Answers `DELETE /v1/organization/projects/{project_id}/service_accounts/{service_account_id}`.
    """
    accounts = admin.administration.service_accounts
    account = await accounts.find(admin.organisation, project_id, service_account_id)
    await accounts.remove(admin.actor, project_id, account.id)
    await admin.administration.keys.revoke_all(
        KeySet(organisation=admin.organisation, project=project_id, user=account.id)
    )
    await admin.record(Event.SERVICE_ACCOUNT_DELETED, account.id, project=project_id)
    return json_response(ServiceAccountDeleted(id=account.id))


@router.post("/{service_account_id}/api_keys", **document_route(CreatedKey, body=KeyCreate))
async def create_service_account_key(
    project_id: str,
    service_account_id: str,
    admin: Writer,
    body: Annotated[KeyCreate, Depends(admin_body(KeyCreate))],
) -> Response:
    """Create an API key of a service account; only this response has its secret text.

    Answers `POST /v1/organization/projects/{project_id}/service_accounts/{service_account_id}/api_keys`.
    """
    accounts = admin.administration.service_accounts
    account = await accounts.find(admin.organisation, project_id, service_account_id)
    return json_response(await _new_key(admin, account, body))


async def _new_key(admin: Administrator, account: Record, body: KeyCreate) -> CreatedKey:
    """Create a key and set its budget, before the key's text is returned to the client."""
    lifetime = body.expires_in_seconds
    spec = KeySpec(
        name=body.name or account.name,
        scopes=None if body.scopes is None else frozenset(body.scopes),
        models=None if body.models is None else frozenset(body.models),
        expires=None if lifetime is None else time.time() + lifetime,
    )
    issued = await admin.administration.keys.create(admin.actor, account.project, spec, owner=account.id)
    shown = format_key_id(issued.key.key_id)
    details: dict[str, Any] = {"name": spec.name, "service_account": account.id}
    if spec.scopes is not None:
        details["scopes"] = sorted(spec.scopes)
    if body.spend_limit is not None:
        await admin.administration.budgets.set(
            admin.organisation, key_budget(issued.key.key_id), body.spend_limit.nano_usd
        )
        details["spend_limit_cents"] = body.spend_limit.threshold_amount
    await admin.record(Event.API_KEY_CREATED, shown, project=account.project, details=details)
    return CreatedKey(id=shown, value=issued.key.text, name=issued.record.name, created_at=int(issued.record.created))


def _fields(account: Record) -> dict[str, Any]:
    return {"id": account.id, "name": account.name, "created_at": int(account.created)}
