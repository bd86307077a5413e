"""HTTP routes of budgets (`/api/admin/budgets`), and of reading credit (`.../credit`) and prices (`.../prices`)."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from auth_billing.audit_log import Event
from auth_billing.errors import NoSuchRecord
from auth_billing.money.billing_records import Balance
from auth_billing.money.budgets import BudgetUse
from auth_billing.money.holds import ORGANISATION_BUDGET, key_budget, project_budget
from auth_billing.people.sessions import BrowserSession
from auth_billing.prices.price_book import PriceVersion
from chat_ui.http.access_control import Admin
from chat_ui.http.responses import schema_response
from chat_ui.http.schemas.administration import (
    BudgetJson,
    BudgetList,
    BudgetRow,
    Credit,
    CreditRow,
    ModelPrice,
    PriceList,
    PriceRow,
)
from chat_ui.services import record_event, services_of

router = APIRouter()


@router.get("/budgets", response_model=BudgetList)
async def list_budgets(request: Request, caller: Admin) -> Response:
    """List this month's budgets of the organisation and their use (`GET /api/admin/budgets`).

    Projects and keys without a budget are included.
    """
    return schema_response(await _budgets(request, caller))


@router.post("/budgets", response_model=BudgetList)
async def set_budget(request: Request, caller: Admin, body: BudgetJson) -> Response:
    """Set or remove a monthly budget, and return all budgets (`POST /api/admin/budgets`).

    The budget is of the organisation, a project or a key, and in force within two seconds at every gateway.
    """
    if body.name not in await _labels(request, caller):
        raise NoSuchRecord(f"no budget {body.name}")
    await services_of(request).admin.administration.budgets.set(caller.organisation, body.name, body.limit_nano)
    event = Event.BUDGET_DELETED if body.limit_nano is None else Event.BUDGET_UPDATED
    details = {"limit_nano": body.limit_nano}
    await record_event(request, caller, event, body.name, details=details)
    return schema_response(await _budgets(request, caller))


@router.get("/credit", response_model=Credit)
async def read_credit(request: Request, caller: Admin) -> Response:
    """Return the organisation's credit with its newest ledger entries (`GET /api/admin/credit`; docs/money.md).

    The operator or a payment integration adds credit.
    """
    return schema_response(await credit_of(request, caller.organisation))


@router.get("/prices", response_model=PriceList)
async def list_prices(request: Request, caller: Admin) -> Response:
    """List the prices in force, by model and service class (`GET /api/admin/prices`)."""
    return schema_response(price_list(await services_of(request).admin.prices.newest()))


def price_list(version: PriceVersion) -> PriceList:
    """Convert a version of the prices to a response model, sorted by model; the default is last."""
    prices = version.prices
    default = [] if prices.default is None else [(None, prices.default)]
    rows = [
        PriceRow(model=model, service_class=service_class.value, price=ModelPrice.model_validate(rate))
        for model, rates in [*sorted(prices.models.items()), *default]
        for service_class, rate in rates.items()
    ]
    return PriceList(version=prices.version, in_file=version.in_file, prices=rows)


async def credit_of(request: Request, organisation: str) -> Credit:
    """Return an organisation's balance and newest ledger entries of credit from the store, as a response model."""
    admin = services_of(request).admin
    balance = await admin.balances.find(organisation) or Balance(organisation, 0, 0)
    entries = await admin.credit.newest(organisation, 100)
    return Credit(
        available_nano=balance.available,
        held_nano=balance.total_held,
        spent_nano=balance.spent,
        entries=[CreditRow.model_validate(each) for each in entries],
    )


async def _budgets(request: Request, caller: BrowserSession) -> BudgetList:
    labels = await _labels(request, caller)
    uses = await services_of(request).admin.administration.budgets.used(caller.organisation)
    used = {name: BudgetUse(name, None, 0, 0) for name in labels} | {each.name: each for each in uses}
    return BudgetList(
        budgets=[BudgetRow.model_validate({**vars(use), "label": labels.get(name, name)}) for name, use in used.items()]
    )


async def _labels(request: Request, caller: BrowserSession) -> dict[str, str]:
    """Return display names of the organisation, its projects and their keys, by budget name."""
    administration = services_of(request).admin.administration
    labels = {ORGANISATION_BUDGET: ""}
    for project in await administration.projects.all(caller.organisation):
        labels[project_budget(project.id)] = project.name
        for key in await administration.keys.all(caller.actor, project.id):
            labels[key_budget(key.key_id)] = key.name
    return labels
