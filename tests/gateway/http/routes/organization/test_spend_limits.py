"""Monthly budgets of organisation, project and API key."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from auth_billing.audit_log import Event
from tests.gateway.http.routes.organization.conftest import OURS, AdminApi

CENTS: Any = {"currency": "USD", "interval": "month"}


async def test_budgets_of_organisation_project_and_key(admin_api: AdminApi) -> None:
    made = await admin_api.sdk.projects.service_accounts.create("proj_0", name="Importer")
    for limit, ids in ((admin_api.sdk.spend_limit, {}), (admin_api.sdk.projects.spend_limit, {"project_id": "proj_0"})):
        with pytest.raises(openai.NotFoundError):
            await limit.retrieve(**ids)
        setting = await limit.update(threshold_amount=10_000, **CENTS, **ids)
        assert (setting.threshold_amount, setting.currency, setting.interval) == (10_000, "USD", "month")
        assert setting.enforcement.status == "inactive"
        assert (await limit.retrieve(**ids)).threshold_amount == 10_000
    path = f"/projects/proj_0/api_keys/{made.api_key.id}/spend_limit"
    assert (await admin_api.request("POST", path, json={"threshold_amount": 7, **CENTS})).json()[
        "threshold_amount"
    ] == 7
    kid = made.api_key.id.removeprefix("key_")
    budgets = admin_api.stage.organisation.balances.balances[OURS].budgets
    assert budgets == {"organisation": 10**11, "project:proj_0": 10**11, f"key:{kid}": 7 * 10**7}
    assert (await admin_api.sdk.spend_limit.delete()).deleted
    assert (await admin_api.sdk.projects.spend_limit.delete("proj_0")).object == "project.spend_limit.deleted"
    assert (await admin_api.request("DELETE", path)).json() == {
        "object": "project.api_key.spend_limit.deleted",
        "deleted": True,
    }
    assert admin_api.stage.organisation.balances.balances[OURS].budgets == {}
    for wrong in (
        {"threshold_amount": 0},
        {"threshold_amount": 10**12},
        {"threshold_amount": "1"},
        {"currency": "EUR"},
    ):
        refused = await admin_api.request("POST", "/spend_limit", json={"threshold_amount": 1, **CENTS, **wrong})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, next(iter(wrong)))
    assert {act.event for act in admin_api.audit_entries[2:]} == {Event.BUDGET_UPDATED, Event.BUDGET_DELETED}
