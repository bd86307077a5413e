"""The operator API: for administrators of the operator's organisation only, with exact amounts and references."""

from __future__ import annotations

import time
from typing import Any

import pytest
from fastapi.routing import iter_route_contexts

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import ADMIN_SCOPES
from auth_billing.audit_log import OPERATOR, Event
from auth_billing.development_account import ORGANISATION
from auth_billing.money.installation_usage import InstallationUsageRow
from auth_billing.people.organisation_records import Organisation
from auth_billing.prices.price_file import PriceFile
from gateway.http.routes import operator
from tests.gateway.conftest import KEY
from tests.gateway.http.routes.organization.conftest import FOREIGN, OURS, AdminApi, admin_api, key_of

__all__ = ["admin_api"]

OPERATORS_KEY = "hr_live_operators"
ROUTES = [
    (method, str(route.path).removeprefix("/v1"))
    for route in iter_route_contexts(operator.router.routes)
    for method in sorted(route.methods or ())
]
GIFT = {"kind": "promo", "amount": 5, "reference": "r-1", "reason": "a gift"}
RATE = {"input": 150, "cached_input": 75, "output": 600}


@pytest.fixture
async def api(admin_api: AdminApi) -> AdminApi:
    organisation = admin_api.stage.organisation
    await organisation.accounts.ensure_organisation(Organisation(ORGANISATION, "Development", 1.0))
    await organisation.administration.installation.prices.unlock(
        PriceFile.model_validate({"default": {"embedding": "1"}})
    )
    admin_api.stage.accounts.added[OPERATORS_KEY] = Principal(
        "op", ORGANISATION, "salt", scopes=frozenset(ADMIN_SCOPES)
    )
    return admin_api


async def call(api: AdminApi, method: str, path: str, body: Any = None, key: str = OPERATORS_KEY) -> Any:
    headers = {"authorization": f"Bearer {key}"}
    return await api.stage.client.request(method, f"/v1/operator{path}", headers=headers, json=body)


@pytest.mark.parametrize("key", [KEY, FOREIGN, *(key_of(name) for name in ("owner", "admin", "viewer", "operator"))])
async def test_owners_of_other_organisations_are_no_operators(api: AdminApi, key: str) -> None:
    for method, path in ROUTES:
        filled = path.removeprefix("/operator").replace("{organization_id}", OURS)
        refused = await call(api, method, filled, {} if method == "POST" else None, key)
        assert refused.status_code == 403, path
    assert api.stage.organisation.balances.balances == {}
    assert len(api.stage.organisation.prices.versions) == 1


async def test_credit_is_given_and_taken_once_per_reference(api: AdminApi) -> None:
    path = f"/organizations/{OURS}/credit"
    given = [(await call(api, "POST", path, GIFT)).json() for _ in range(2)]
    assert given[0] == given[1]
    assert (given[0]["kind"], given[0]["amount"], given[0]["reason"]) == ("promo", 5, "a gift")
    taken = await call(api, "POST", path, {**GIFT, "kind": "withdrawal", "amount": 2})
    assert taken.json()["organization_id"] == OURS
    too_much = await call(api, "POST", path, {**GIFT, "kind": "withdrawal", "amount": 4, "reference": "r-2"})
    assert (too_much.status_code, too_much.json()["error"]["code"]) == (400, "invalid_value")
    assert (await call(api, "GET", f"/organizations/{OURS}")).json()["available"] == 3
    page = (await call(api, "GET", "/organizations?limit=2")).json()
    assert ([each["id"] for each in page["data"]], page["has_more"]) == ([ORGANISATION, OURS], True)
    entries = [(each.organisation, each.event, each.actor == OPERATOR) for each in api.audit_entries]
    assert entries == [
        (OURS, Event.CREDIT_GRANTED, True),
        (ORGANISATION, Event.CREDIT_GRANTED, False),
        (OURS, Event.CREDIT_WITHDRAWN, True),
        (ORGANISATION, Event.CREDIT_WITHDRAWN, False),
    ]
    assert (await call(api, "POST", "/organizations/nobody/credit", GIFT)).status_code == 404
    for wrong in ({"amount": 0}, {"amount": 10**18 + 1}, {"amount": 1.5}, {"reference": ""}, {"kind": "refund"}):
        assert (await call(api, "POST", path, {**GIFT, **wrong})).status_code == 400


async def test_prices_are_changed_version_by_version(api: AdminApi) -> None:
    body = {"version": 1, "model": "tiny", "rates": {"default": RATE, "flex": {**RATE, "output": 1}}}
    changed = (await call(api, "POST", "/prices", body)).json()
    assert (changed["version"], changed["in_file"]) == (2, False)
    assert changed["models"]["tiny"] == {"default": RATE, "priority": RATE, "flex": {**RATE, "output": 1}}
    stale = await call(api, "POST", "/prices", body)
    assert (stale.status_code, stale.json()["error"]["code"]) == (409, "price_conflict")
    assert (await call(api, "GET", "/prices")).json() == changed
    for wrong in ({**RATE, "input": -1}, {**RATE, "cached_input": 151}, {**RATE, "output": 10**9 + 1}):
        refused = await call(api, "POST", "/prices", {**body, "version": 2, "rates": {"default": wrong}})
        assert refused.status_code == 400
    removed = await call(api, "POST", "/prices", {"version": 2, "model": "tiny", "rates": None})
    assert removed.json()["models"] == {}
    assert [each.event for each in api.audit_entries] == [Event.PRICES_UPDATED] * 2


async def test_usage_of_all_organisations(api: AdminApi) -> None:
    today = int(time.time()) // 86_400 * 86_400
    usage = api.stage.organisation.usage_of_all
    usage.found, usage.until = [InstallationUsageRow(today, OURS, "=tiny", 2, 30, 10, 5, 123)], today + 3600
    found = (await call(api, "GET", "/usage?days=1")).json()
    assert found["complete_until"] == today + 3600
    (row,) = found["data"]
    assert (row["organization"], row["input_cached_tokens"], row["cost"]) == (OURS, 10, 123)
    table = await call(api, "GET", "/usage?format=csv")
    assert table.headers["content-type"].startswith("text/csv")
    assert "'=tiny" in table.text
    assert (await call(api, "GET", "/usage?days=0")).status_code == 400


async def test_operators_change_the_prices_of_units(api: AdminApi) -> None:
    drawn = {"input": 0, "cached_input": 0, "output": 0, "units": {"512x512": 4_000_000}}
    body = {"version": 1, "model": "painter", "rates": {"default": drawn}}
    changed = await call(api, "POST", "/prices", body)
    assert changed.json()["models"]["painter"]["flex"] == drawn
    assert "units" not in changed.json()["default"]["flex"]
    for units in ({"a.b": 1}, {"call": -1}, {"call": 10**13}):
        wrong = {**body, "version": 2, "rates": {"default": {**drawn, "units": units}}}
        assert (await call(api, "POST", "/prices", wrong)).status_code == 400
