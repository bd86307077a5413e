"""HTTP routes of usage, balance and limits: `/api/usage` of the caller, `/api/admin/usage` of the organisation."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from chat_ui.http import usage_reports
from chat_ui.http.access_control import Admin, Caller
from chat_ui.http.responses import schema_response
from chat_ui.http.schemas.base import QueryParameters
from chat_ui.http.schemas.usage import OrganisationUsage, Storage, Usage
from chat_ui.http.usage_reports import MAX_DAYS
from chat_ui.services import owner_of, services_of

router = APIRouter()


class UsageQuery(QueryParameters):
    """Query parameters of usage reports."""

    days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 30
    """Number of days, today (UTC) included."""


@router.get("/usage", response_model=Usage)
async def own_usage(request: Request, caller: Caller, query: Annotated[UsageQuery, Query()]) -> Response:
    """Return the caller's usage in the chat and by own API keys (`GET /api/usage`).

    Balance, rate limits and the bytes stored are included.
    """
    admin, storage = services_of(request).admin, services_of(request).storage
    return schema_response(
        Usage(
            by_day=await usage_reports.by_day(admin, caller.organisation, query.days, caller.user.id),
            balance=await usage_reports.balance(admin, caller.organisation, caller.project),
            limits=await usage_reports.limits(admin, owner_of(caller), caller.project),
            storage=Storage(used_bytes=await storage.used(owner_of(caller)), limit_bytes=storage.limit),
        )
    )


@router.get("/admin/usage", response_model=OrganisationUsage)
async def organisation_usage(request: Request, caller: Admin, query: Annotated[UsageQuery, Query()]) -> Response:
    """Return the organisation's usage by day and by person, each by model, and its balance (`GET /api/admin/usage`)."""
    admin = services_of(request).admin
    return schema_response(
        OrganisationUsage(
            by_day=await usage_reports.by_day(admin, caller.organisation, query.days),
            by_person=await usage_reports.by_person(admin, caller.organisation, query.days),
            balance=await usage_reports.balance(admin, caller.organisation, None),
        )
    )
