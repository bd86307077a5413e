"""HTTP routes of the organisation's audit log: its entries, and whether it has accesses to documents."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from auth_billing.audit_log import AuditQuery, Event
from chat_ui.http.access_control import Admin
from chat_ui.http.responses import schema_response
from chat_ui.http.schemas.administration import AuditPage, AuditRow, DocumentAudit, DocumentAuditJson
from chat_ui.http.schemas.base import QueryParameters
from chat_ui.services import record_event, services_of

router = APIRouter()


class AuditListQuery(QueryParameters):
    """Query parameters of the audit log."""

    cursor: Annotated[str, Field(max_length=100)] | None = None
    """`next` of the previous page."""
    event: Annotated[str, Field(max_length=100)] | None = None
    """Only entries of this event."""
    limit: Annotated[int, Field(ge=1, le=100)] = 50


@router.get("/audit", response_model=AuditPage)
async def list_audit(request: Request, caller: Admin, query: Annotated[AuditListQuery, Query()]) -> Response:
    """List the organisation's audit log entries by page, newest first (`GET /api/admin/audit`)."""
    events = [] if query.event is None else [query.event]
    wanted = AuditQuery(caller.organisation, limit=query.limit + 1, events=events, after=query.cursor)
    found = await services_of(request).audit.find(wanted)
    entries = found[: query.limit]
    more = entries[-1].id if len(found) > query.limit else None
    return schema_response(AuditPage(entries=[AuditRow.model_validate(each) for each in entries], next=more))


@router.get("/document-audit", response_model=DocumentAudit)
async def read_document_audit(request: Request, caller: Admin) -> Response:
    """Return whether accesses to documents are recorded in the audit log (`GET /api/admin/document-audit`)."""
    audit = services_of(request).admin.administration.document_audit
    return schema_response(DocumentAudit(enabled=await audit.is_on(caller.organisation)))


@router.post("/document-audit", response_model=DocumentAudit)
async def set_document_audit(request: Request, caller: Admin, body: DocumentAuditJson) -> Response:
    """Set whether accesses to documents are recorded, within five seconds (`POST /api/admin/document-audit`)."""
    await services_of(request).admin.administration.document_audit.set(caller.actor, on=body.enabled)
    details = {"enabled": body.enabled}
    await record_event(request, caller, Event.DOCUMENT_AUDIT_UPDATED, caller.organisation, details=details)
    return schema_response(DocumentAudit(enabled=body.enabled))
