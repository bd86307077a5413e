"""HTTP route of the organisation's audit log: `GET /api/admin/audit`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from auth_billing.audit_log import AuditQuery
from chat_ui.http.access_control import Admin
from chat_ui.http.responses import schema_response
from chat_ui.http.schemas.administration import AuditPage, AuditRow
from chat_ui.http.schemas.base import QueryParameters
from chat_ui.services import services_of

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
