"""Routes of usage, balance and limits: `/api/usage` of the caller, `/api/admin/usage` of the organisation."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from chat_ui.chat import chat_of, owner_of
from chat_ui.http import reports
from chat_ui.http.answers import shown
from chat_ui.http.guard import Admin, Caller
from chat_ui.http.reports import MOST_DAYS
from chat_ui.http.shapes.usage import OrganisationUsage, Usage

router = APIRouter()


class UsageQuery(BaseModel):
    """Query parameters of usage reports."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    days: Annotated[int, Field(ge=1, le=MOST_DAYS)] = 30
    """Number of days, today (UTC) included."""


@router.get("/usage", response_model=Usage)
async def own_usage(request: Request, caller: Caller, query: Annotated[UsageQuery, Query()]) -> Response:
    """Return the caller's usage by API key and chat, with the organisation's balance."""
    office = chat_of(request).office
    return shown(
        Usage(
            by_day=await reports.by_day(office, caller.organisation, query.days, caller.user.id),
            balance=await reports.balance(office, caller.organisation, caller.project),
            limits=await reports.limits(office, owner_of(caller), caller.project),
        )
    )


@router.get("/admin/usage", response_model=OrganisationUsage)
async def organisation_usage(request: Request, caller: Admin, query: Annotated[UsageQuery, Query()]) -> Response:
    """Return the organisation's usage, by day and by person, with its balance."""
    office = chat_of(request).office
    return shown(
        OrganisationUsage(
            by_day=await reports.by_day(office, caller.organisation, query.days),
            by_person=await reports.by_person(office, caller.organisation, query.days),
            balance=await reports.balance(office, caller.organisation, None),
        )
    )
