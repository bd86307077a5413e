"""HTTP routes below `/api/admin` for operators only: organisations and their credit, prices, and the usage of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from auth_billing.audit_log import Event
from auth_billing.installation import Installation, OrganisationAccount, day_of
from auth_billing.money.installation_usage import InstallationUsageRow
from chat_ui.http.access_control import Operator
from chat_ui.http.responses import schema_response
from chat_ui.http.routes.admin.billing import credit_of, price_list
from chat_ui.http.routes.usage import UsageQuery
from chat_ui.http.schemas.administration import Credit, PriceList
from chat_ui.http.schemas.base import QueryParameters
from chat_ui.http.schemas.installation import (
    CreditJson,
    InstallationUsage,
    OrganisationPage,
    OrganisationRow,
    OrganisationUsageRow,
    PriceJson,
)
from chat_ui.http.schemas.usage import DayUsage
from chat_ui.services import audit_actor, record_event, services_of
from runtime import tables

router = APIRouter()

PAGE = 50
_SUMS = ("requests", "input_tokens", "cached_tokens", "output_tokens", "cost")


class OrganisationListQuery(QueryParameters):
    """Query parameters of the list of organisations."""

    cursor: Annotated[str, Field(max_length=200)] = ""
    """`next` of the previous page."""


@router.get("/organisations", response_model=OrganisationPage)
async def list_organisations(
    request: Request, caller: Operator, query: Annotated[OrganisationListQuery, Query()]
) -> Response:
    """List the organisations with their credit, by page, sorted by id (`GET /api/admin/organisations`)."""
    found = await _installation(request).page(query.cursor, PAGE + 1)
    rows = [_row(each) for each in found[:PAGE]]
    return schema_response(OrganisationPage(organisations=rows, next=rows[-1].id if len(found) > PAGE else None))


@router.get("/organisations/{organisation}/credit", response_model=Credit)
async def read_organisation_credit(request: Request, organisation: str, caller: Operator) -> Response:
    """Return the credit of any organisation, and its newest ledger entries of credit.

    Route: `GET /api/admin/organisations/{organisation}/credit`.
    """
    await _installation(request).account(organisation)
    return schema_response(await credit_of(request, organisation))


@router.post("/organisations/{organisation}/credit", response_model=Credit)
async def change_credit(request: Request, organisation: str, caller: Operator, body: CreditJson) -> Response:
    """Give an organisation credit, or take unspent credit from it, once per reference; return its credit.

    Route: `POST /api/admin/organisations/{organisation}/credit`.
    """
    actor = audit_actor(request, caller.user)
    await _installation(request).change_credit(
        body.credit_kind, organisation, body.amount_nano, body.reference, body.reason, actor=actor
    )
    return schema_response(await credit_of(request, organisation))


@router.post("/prices", response_model=PriceList)
async def edit_prices(request: Request, caller: Operator, body: PriceJson) -> Response:
    """Change or remove the prices of a model, and return the new version (`POST /api/admin/prices`).

    The version is in force within five seconds at every gateway.
    """
    rates = None if body.rates is None else body.rates.rates
    actor = audit_actor(request, caller.user)
    version = await _installation(request).edit_prices(body.model, rates, seen=body.version, actor=actor)
    return schema_response(price_list(version))


@router.get("/installation-usage", response_model=InstallationUsage)
async def installation_usage(request: Request, caller: Operator, query: Annotated[UsageQuery, Query()]) -> Response:
    """Return all organisations' usage, by day and model and by organisation, from hourly rollups.

    Route: `GET /api/admin/installation-usage`.
    """
    usage = await _installation(request).usage_of_all(query.days)
    by_day = _totals(replace(row, organisation="") for row in usage.rows)
    by_organisation = _totals(replace(row, start=0, model="") for row in usage.rows)
    return schema_response(
        InstallationUsage(
            by_day=[DayUsage.model_validate({**vars(row), "day": day_of(row)}) for row in by_day],
            by_organisation=[
                OrganisationUsageRow(
                    id=row.organisation,
                    name=usage.names.get(row.organisation, ""),
                    requests=row.requests,
                    input_tokens=row.input_tokens,
                    cached_tokens=row.cached_tokens,
                    output_tokens=row.output_tokens,
                    cost_nano=row.cost,
                )
                for row in sorted(by_organisation, key=lambda row: row.cost, reverse=True)
            ],
            complete_until=usage.complete_until,
        )
    )


@router.get("/installation-usage.csv", response_class=Response)
async def installation_usage_csv(request: Request, caller: Operator, query: Annotated[UsageQuery, Query()]) -> Response:
    """Return all organisations' usage as CSV by day, organisation, model (`GET /api/admin/installation-usage.csv`)."""
    usage = await _installation(request).usage_of_all(query.days)
    await record_event(request, caller, Event.USAGE_EXPORTED, "installation", details={"format": "csv"})
    headers = {"content-disposition": 'attachment; filename="installation-usage.csv"', "cache-control": "no-store"}
    return StreamingResponse(tables.chunks(await usage.csv()), media_type=tables.CSV_TYPE, headers=headers)


def _installation(request: Request) -> Installation:
    return services_of(request).admin.administration.installation


def _row(account: OrganisationAccount) -> OrganisationRow:
    organisation, balance = account.organisation, account.balance
    return OrganisationRow(
        id=organisation.id,
        name=organisation.name,
        created=organisation.created,
        available_nano=balance.available,
        held_nano=balance.total_held,
        spent_nano=balance.spent,
        open=balance.is_open,
    )


def _totals(rows: Iterable[InstallationUsageRow]) -> list[InstallationUsageRow]:
    """Add up rows of the same day, organisation and model, in the order of the first of each."""
    sums: dict[tuple[int, str, str], Counter[str]] = {}
    for row in rows:
        total = sums.setdefault((row.start, row.organisation, row.model), Counter())
        for name in _SUMS:
            total[name] += getattr(row, name)
    return [InstallationUsageRow(*key, *(total[name] for name in _SUMS)) for key, total in sums.items()]
