"""Route of `GET /v1/organization/audit_logs`: administrative actions, newest first."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from auth_billing.audit_log import AuditActor, AuditEntry, AuditQuery
from gateway.errors import InvalidRequest
from gateway.http.api_documentation import document_route
from gateway.http.json_response import json_response
from gateway.http.pagination import listed, query_of
from gateway.http.routes.organization.access import Reader
from gateway.openai.organization.audit_logs import (
    AuditLog,
    AuditLogActor,
    AuditLogApiKey,
    AuditLogList,
    AuditLogProject,
    AuditLogQuery,
    AuditLogSession,
    AuditLogUser,
    TimeRange,
)
from gateway.openai.organization.keys import format_key_id, parse_key_id

router = APIRouter(prefix="/v1/organization/audit_logs")


@router.get("", **document_route(AuditLogList, query=AuditLogQuery))
async def list_audit_logs(admin: Reader, query: Annotated[AuditLogQuery, Depends(query_of(AuditLogQuery))]) -> Response:
    """List a page of the organisation's audit log, newest first, after or before the entry with a given id.

    Answers `GET /v1/organization/audit_logs`.
    """
    if query.after is not None and query.before is not None:
        raise InvalidRequest("Invalid 'before': not together with 'after'.", param="before")
    found = await admin.administration.audit_log.find(_audit_query(admin.organisation, query))
    more, entries = len(found) > query.limit, found[: query.limit]
    if query.before is not None:
        entries = found[-query.limit :]
    return json_response(listed(AuditLogList, [_entry(each) for each in entries], has_more=more))


def _audit_query(organisation: str, query: AuditLogQuery) -> AuditQuery:
    since, until = _range(query.effective_at)
    return AuditQuery(
        organisation,
        limit=query.limit + 1,  # one more shows whether there is another page
        projects=query.project_ids,
        events=[event.value for event in query.event_types],
        actors=[parse_key_id(each) for each in query.actor_ids],
        emails=query.actor_emails,
        targets=query.resource_ids,
        since=since,
        until=until,
        after=query.after,
        before=query.before,
    )


def _range(times: TimeRange) -> tuple[int | None, int | None]:
    """Return the start (inclusive) and the end (exclusive) of a range, in whole seconds as clients see them."""
    lower = [each for each in (times.gte, times.gt + 1 if times.gt is not None else None) if each is not None]
    upper = [each for each in (times.lt, times.lte + 1 if times.lte is not None else None) if each is not None]
    return max(lower, default=None), min(upper, default=None)


def _entry(entry: AuditEntry) -> AuditLog:
    return AuditLog(
        id=entry.id,
        type=entry.event.value,
        effective_at=int(entry.at),
        project=AuditLogProject(id=entry.project) if entry.project else None,
        actor=_actor(entry.actor),
        **{entry.event.value: _details(entry)},
    )


def _details(entry: AuditEntry) -> dict[str, Any]:
    """Return an event's details under the keys that OpenAI's events use."""
    if entry.event.value.endswith(".updated"):
        return {"id": entry.target, "changes_requested": dict(entry.details)}
    return {"id": entry.target, **({"data": dict(entry.details)} if entry.details else {})}


def _actor(actor: AuditActor) -> AuditLogActor | None:
    user = AuditLogUser(id=actor.user, email=actor.email) if actor.user else None
    if actor.key_id:
        kind: Any = "user" if user else "service_account"
        key = AuditLogApiKey(id=format_key_id(actor.key_id), type=kind, user=user, ip_address=actor.address)
        return AuditLogActor(type="api_key", api_key=key)
    if user is None:
        return None
    return AuditLogActor(type="session", session=AuditLogSession(user=user, ip_address=actor.address))
