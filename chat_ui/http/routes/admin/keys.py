"""HTTP routes of `/api/admin/keys`: administrators list, create and revoke API keys, and rotate their own.

Only the response that creates or rotates a key has its text.
"""

from __future__ import annotations

import time

from fastapi import APIRouter, Request, Response

from auth_billing.audit_log import Detail, Event
from auth_billing.errors import NoSuchRecord
from auth_billing.keys.key_issuance import KeySpec
from auth_billing.keys.key_records import ApiKeyRecord
from auth_billing.money.holds import key_budget
from auth_billing.people.sessions import BrowserSession
from chat_ui.http.access_control import Admin
from chat_ui.http.request_bodies import EmptyJson
from chat_ui.http.responses import no_content, schema_response
from chat_ui.http.schemas.administration import Key, KeyList, NewKey, NewKeyJson, RotateJson
from chat_ui.services import record_event, services_of

router = APIRouter(prefix="/keys")


@router.get("", response_model=KeyList)
async def list_keys(request: Request, caller: Admin) -> Response:
    """List the unrevoked API keys of all active projects of the organisation, newest first (`GET /api/admin/keys`)."""
    administration = services_of(request).admin.administration
    keys: list[ApiKeyRecord] = []
    for project in await administration.projects.all(caller.organisation):
        keys += await administration.keys.all(caller.actor, project.id)
    emails = await _emails(request, caller)
    newest = sorted(keys, key=lambda each: each.created, reverse=True)
    return schema_response(KeyList(keys=[_key(each, emails) for each in newest]))


@router.post("", response_model=NewKey, status_code=201)
async def create_key(request: Request, caller: Admin, body: NewKeyJson) -> Response:
    """Create an API key of the caller, and return its text, shown only once (`POST /api/admin/keys`).

    The key's budget is set before its text is returned.
    """
    administration = services_of(request).admin.administration
    lifetime = body.expires_in_seconds
    spec = KeySpec(
        body.name,
        models=None if body.models is None else frozenset(body.models),
        expires=None if lifetime is None else time.time() + lifetime,
    )
    issued = await administration.keys.create(caller.actor, body.project, spec)
    if body.budget_nano is not None:
        await administration.budgets.set(caller.organisation, key_budget(issued.key.key_id), body.budget_nano)
    details: dict[str, Detail] = {"name": issued.record.name, "budget_nano": body.budget_nano}
    await _record(request, caller, Event.API_KEY_CREATED, issued.record, details)
    key = _key(issued.record, {caller.user.id: caller.user.email})
    return schema_response(NewKey(key=key, text=issued.key.text), 201)


@router.post("/{key_id}/rotate", response_model=NewKey, status_code=201)
async def rotate_key(request: Request, key_id: str, caller: Admin, body: RotateJson) -> Response:
    """Replace an API key of the caller, and return the new text (`POST /api/admin/keys/{key_id}/rotate`).

    The old key stays valid for a while. Keys of other people can only be revoked.
    """
    keys = services_of(request).admin.administration.keys
    old = await find_key(request, caller, key_id)
    issued = await keys.rotate(caller.actor, old.project, key_id, overlap=body.overlap_seconds)
    await _record(request, caller, Event.API_KEY_ROTATED, old, {"successor": issued.key.key_id})
    key = _key(issued.record, await _emails(request, caller))
    return schema_response(NewKey(key=key, text=issued.key.text), 201)


@router.delete("/{key_id}", status_code=204)
async def revoke_key(request: Request, key_id: str, caller: Admin, _empty: EmptyJson) -> Response:
    """Revoke an API key of the organisation permanently (`DELETE /api/admin/keys/{key_id}`).

    Gateways refuse the key within seconds.
    """
    old = await find_key(request, caller, key_id)
    await services_of(request).admin.administration.keys.revoke(caller.actor, old.project, key_id)
    await _record(request, caller, Event.API_KEY_DELETED, old, {"name": old.name})
    return no_content()


async def find_key(request: Request, caller: BrowserSession, key_id: str) -> ApiKeyRecord:
    """Return the record of an API key of one of the organisation's projects, by the key's id.

    Raises:
        NoSuchRecord: none of the organisation's projects has a key with this id.
    """
    administration = services_of(request).admin.administration
    for project in await administration.projects.all(caller.organisation):
        for key in await administration.keys.all(caller.actor, project.id):
            if key.key_id == key_id:
                return key
    raise NoSuchRecord(f"no key {key_id}")


async def _emails(request: Request, caller: BrowserSession) -> dict[str, str]:
    members = await services_of(request).admin.administration.members.all(caller.organisation)
    return {each.user.id: each.user.email for each in members}


async def _record(
    request: Request, caller: BrowserSession, event: Event, key: ApiKeyRecord, details: dict[str, Detail]
) -> None:
    await record_event(request, caller, event, key.key_id, project=key.project, details=details)


def _key(record: ApiKeyRecord, emails: dict[str, str]) -> Key:
    models = None if record.models is None else sorted(record.models)
    return Key.model_validate({**vars(record), "email": emails.get(record.user, ""), "models": models})
