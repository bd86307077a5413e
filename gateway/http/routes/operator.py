"""Routes of `/v1/operator`: the operator reads and changes organisations' credit and prices, and reads all usage.

They take admin API keys of the operator's organisation only, and are an extension. `/v1/organization` takes admin API
keys of any organisation.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response
from fastapi.responses import StreamingResponse

from auth_billing.audit_log import Event
from auth_billing.installation import Installation, OrganisationAccount, day_of
from auth_billing.prices.price_book import PriceVersion
from auth_billing.prices.pricing import RateCard
from gateway.http.api_documentation import document_route
from gateway.http.json_response import json_response
from gateway.http.pagination import listed, query_of
from gateway.http.routes.organization.access import Administrator, Reader, Writer, admin_body
from gateway.openai.operator import (
    CreditCreate,
    CreditItem,
    OrganizationCredit,
    OrganizationCreditList,
    Prices,
    PriceUpdate,
    Rate,
    Rates,
    UsageItem,
    UsageItemList,
    UsageQuery,
)
from gateway.openai.pagination import PageQuery
from runtime import tables

router = APIRouter(prefix="/v1/operator")


async def _reading_operator(admin: Reader) -> Administrator:
    admin.administration.installation.require_operator(admin.actor)
    return admin


async def _writing_operator(admin: Writer) -> Administrator:
    admin.administration.installation.require_operator(admin.actor)
    return admin


ReadingOperator = Annotated[Administrator, Depends(_reading_operator)]
WritingOperator = Annotated[Administrator, Depends(_writing_operator)]


@router.get("/organizations", **document_route(OrganizationCreditList, query=PageQuery))
async def list_organizations(
    operator: ReadingOperator, query: Annotated[PageQuery, Depends(query_of(PageQuery))]
) -> Response:
    """List a page of the installation's organisations with their credit, sorted by id.

    Answers `GET /v1/operator/organizations`.
    """
    found = await _installation(operator).page(query.after or "", query.limit + 1)
    shown = [_organization(each) for each in found[: query.limit]]
    return json_response(listed(OrganizationCreditList, shown, has_more=len(found) > query.limit))


@router.get("/organizations/{organization_id}", **document_route(OrganizationCredit))
async def retrieve_organization(organization_id: str, operator: ReadingOperator) -> Response:
    """Return one organisation with its credit (`GET /v1/operator/organizations/{organization_id}`)."""
    return json_response(_organization(await _installation(operator).account(organization_id)))


@router.post("/organizations/{organization_id}/credit", **document_route(CreditItem, body=CreditCreate))
async def change_credit(
    organization_id: str, operator: WritingOperator, body: Annotated[CreditCreate, Depends(admin_body(CreditCreate))]
) -> Response:
    """Give an organisation credit, or take unspent credit from it, once per reference.

    Answers `POST /v1/operator/organizations/{organization_id}/credit`.
    """
    actor = await operator.audit_actor()
    entry = await _installation(operator).change_credit(
        body.credit_kind, organization_id, body.amount, body.reference, body.reason, actor=actor
    )
    return json_response(
        CreditItem(
            id=entry.id,
            organization_id=entry.organisation,
            kind=entry.kind.value,
            amount=entry.amount,
            reference=entry.reference,
            reason=entry.reason,
            created_at=int(entry.at),
        )
    )


@router.get("/prices", **document_route(Prices))
async def retrieve_prices(operator: ReadingOperator) -> Response:
    """Return the prices of all models in force (`GET /v1/operator/prices`)."""
    return json_response(_prices(await _installation(operator).prices.newest()))


@router.post("/prices", **document_route(Prices, body=PriceUpdate))
async def update_prices(
    operator: WritingOperator, body: Annotated[PriceUpdate, Depends(admin_body(PriceUpdate))]
) -> Response:
    """Change or remove the prices of one model; every gateway uses them within five seconds.

    Answers `POST /v1/operator/prices`.
    """
    rates, actor = None if body.rates is None else body.rates.rates, await operator.audit_actor()
    version = await _installation(operator).edit_prices(body.model, rates, seen=body.version, actor=actor)
    return json_response(_prices(version))


@router.get("/usage", **document_route(UsageItemList, query=UsageQuery))
async def retrieve_usage(
    operator: ReadingOperator, query: Annotated[UsageQuery, Depends(query_of(UsageQuery))]
) -> Response:
    """Report tokens, requests and cost by day, organisation and model, as JSON or CSV, without the last hours.

    Answers `GET /v1/operator/usage`.
    """
    usage = await _installation(operator).usage_of_all(query.days)
    if query.format == "csv":
        await operator.record(Event.USAGE_EXPORTED, "installation", details={"format": "csv"})
        headers = {"content-disposition": 'attachment; filename="installation-usage.csv"', "cache-control": "no-store"}
        return StreamingResponse(tables.chunks(await usage.csv()), media_type=tables.CSV_TYPE, headers=headers)
    items = [
        UsageItem(
            date=day_of(row),
            organization_id=row.organisation,
            organization=usage.names.get(row.organisation, ""),
            model=row.model,
            num_model_requests=row.requests,
            input_tokens=row.input_tokens,
            input_cached_tokens=row.cached_tokens,
            output_tokens=row.output_tokens,
            cost=row.cost,
        )
        for row in usage.rows
    ]
    return json_response(UsageItemList(data=items, complete_until=usage.complete_until))


def _installation(operator: Administrator) -> Installation:
    return operator.administration.installation


def _organization(account: OrganisationAccount) -> OrganizationCredit:
    organisation, balance = account.organisation, account.balance
    return OrganizationCredit(
        id=organisation.id,
        name=organisation.name,
        created_at=int(organisation.created),
        active=balance.is_open,
        available=balance.available,
        held=balance.total_held,
        spent=balance.spent,
    )


def _prices(version: PriceVersion) -> Prices:
    prices = version.prices
    return Prices(
        version=prices.version,
        in_file=version.in_file,
        models={name: _rates(card) for name, card in sorted(prices.models.items())},
        default=None if prices.default is None else _rates(prices.default),
    )


def _rates(card: RateCard) -> Rates:
    return Rates(**{service_class.value: Rate(**vars(rate)) for service_class, rate in card.items()})
