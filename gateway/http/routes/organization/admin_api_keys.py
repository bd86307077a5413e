"""Routes of `/v1/organization/admin_api_keys`: list, create, return and revoke an organisation's admin API keys."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from auth_billing.audit_log import Event
from auth_billing.keys.key_issuance import KeySpec
from auth_billing.keys.key_management import ADMIN_KEYS
from gateway.http.api_documentation import document_route
from gateway.http.json_response import json_response
from gateway.http.pagination import page_of, query_of
from gateway.http.routes.organization.access import Reader, Writer, admin_body
from gateway.http.routes.organization.key_owners import owners_of
from gateway.openai.organization.keys import (
    AdminApiKey,
    AdminApiKeyCreate,
    AdminApiKeyDeleted,
    AdminApiKeyList,
    format_key_id,
    parse_key_id,
)
from gateway.openai.pagination import OrderedPageQuery

router = APIRouter(prefix="/v1/organization/admin_api_keys")


@router.get("", **document_route(AdminApiKeyList, query=OrderedPageQuery))
async def list_admin_api_keys(
    admin: Reader, query: Annotated[OrderedPageQuery, Depends(query_of(OrderedPageQuery))]
) -> Response:
    """List a page of the organisation's admin API keys that are not revoked (`GET /v1/organization/admin_api_keys`)."""
    owners = await owners_of(admin)
    newest_first = await admin.administration.keys.all(admin.actor, ADMIN_KEYS)
    keys = [owners.admin_key(each) for each in newest_first]
    return json_response(page_of(AdminApiKeyList, keys[:: -1 if query.order == "asc" else 1], query))


@router.post("", **document_route(AdminApiKey, body=AdminApiKeyCreate))
async def create_admin_api_key(
    admin: Writer, body: Annotated[AdminApiKeyCreate, Depends(admin_body(AdminApiKeyCreate))]
) -> Response:
    """Create an admin API key with at most the calling key's scopes; only this response has its secret text.

    Answers `POST /v1/organization/admin_api_keys`.
    """
    spec = KeySpec(
        name=body.name,
        scopes=admin.scopes if body.scopes is None else frozenset(body.scopes),
        expires=None if body.expires_in_seconds is None else time.time() + body.expires_in_seconds,
    )
    issued = await admin.administration.keys.create(admin.actor, ADMIN_KEYS, spec, by=admin.principal)
    details = {"name": issued.record.name, "scopes": sorted(issued.record.rights)}
    await admin.record(Event.API_KEY_CREATED, format_key_id(issued.key.key_id), details=details)
    return json_response((await owners_of(admin)).admin_key(issued.record, issued.key.text))


@router.get("/{key_id}", **document_route(AdminApiKey))
async def retrieve_admin_api_key(key_id: str, admin: Reader) -> Response:
    """Return one admin API key, without its secret text (`GET /v1/organization/admin_api_keys/{key_id}`)."""
    record = await admin.administration.keys.find(admin.actor, ADMIN_KEYS, parse_key_id(key_id))
    return json_response((await owners_of(admin)).admin_key(record))


@router.delete("/{key_id}", **document_route(AdminApiKeyDeleted))
async def delete_admin_api_key(key_id: str, admin: Writer) -> Response:
    """Revoke one admin API key, in every gateway within seconds (`DELETE /v1/organization/admin_api_keys/{key_id}`)."""
    await admin.administration.keys.revoke(admin.actor, ADMIN_KEYS, parse_key_id(key_id))
    await admin.record(Event.API_KEY_DELETED, key_id)
    return json_response(AdminApiKeyDeleted(id=key_id))
