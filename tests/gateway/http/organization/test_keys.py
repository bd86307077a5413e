"""Keys, service accounts and budgets by the stock SDK: made within rights, told once, ended everywhere."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from auth_billing.access.scopes import ADMIN_SCOPES, Scope
from auth_billing.audit_log import Event
from auth_billing.authenticator import Authenticator
from router.messages import KeySet
from tests.gateway.http.organization.conftest import OURS, Office, key_of

CENTS: Any = {"currency": "USD", "interval": "month"}


def accounts_of(office: Office) -> Authenticator:
    """What a gateway would say of the keys that were made."""
    return Authenticator(office.stage.organisation.api_keys, b"p" * 32)


async def test_a_service_account_has_a_key_with_rights_and_a_budget(office: Office) -> None:
    made = await office.sdk.projects.service_accounts.create(
        "proj_0",
        name="Importer",
        extra_body={
            "scopes": ["chat.completions"],
            "models": ["org/model"],
            "expires_in_seconds": 3600,
            "spend_limit": {"threshold_amount": 250, **CENTS},
        },
    )
    key = made.api_key
    assert key.object == "organization.project.service_account.api_key"
    principal = await accounts_of(office).authenticate(key.value)
    assert (principal.tenant, principal.project, principal.user) == (OURS, "proj_0", made.id)
    assert (principal.scopes, principal.models) == ({Scope.CHAT_COMPLETIONS}, {"org/model"})
    assert office.stage.organisation.balances.balances[OURS].budgets == {f"key:{principal.key_id}": 2_500_000_000}
    found = await office.sdk.projects.api_keys.retrieve(key.id, project_id="proj_0")
    assert (found.owner.type, found.owner.service_account.name) == ("service_account", "Importer")
    assert found.redacted_value.endswith(key.value[-4:])
    assert (found.scopes, found.models, found.expires_at - found.created_at) == (
        ["chat.completions"],
        ["org/model"],
        3600,
    )
    assert [act.event for act in office.acts] == [Event.SERVICE_ACCOUNT_CREATED, Event.API_KEY_CREATED]
    assert office.acts[1].details["spend_limit_cents"] == 250
    assert key.value not in repr(office.acts)
    listed = await office.ask("GET", "/projects/proj_0/api_keys")
    assert key.value not in listed.text


async def test_a_service_accounts_life(office: Office) -> None:
    accounts = office.sdk.projects.service_accounts
    made = await accounts.create("proj_0", name="Importer", create_service_account_only=True)
    assert made.api_key is None
    first = await accounts.api_keys.create(made.id, project_id="proj_0", name="First", scopes=["embeddings"])
    second = await accounts.api_keys.create(made.id, project_id="proj_0")
    assert [each.name async for each in office.sdk.projects.api_keys.list("proj_0", limit=1)] == ["Importer", "First"]
    assert (await accounts.update(made.id, project_id="proj_0", name="Exporter")).name == "Exporter"
    assert [each.name async for each in accounts.list("proj_0")] == ["Exporter"]
    assert (await office.sdk.projects.api_keys.delete(first.id, project_id="proj_0")).deleted
    assert (await accounts.delete(made.id, project_id="proj_0")).deleted
    for key in (first, second):
        with pytest.raises(Exception, match="revoked"):
            await accounts_of(office).authenticate(key.value)
    with pytest.raises(openai.NotFoundError):
        await accounts.retrieve(made.id, project_id="proj_0")
    assert office.stage.organisation.news == [
        KeySet(key=first.id.removeprefix("key_")),
        KeySet(organisation=OURS, project="proj_0", user=made.id),
    ]
    assert [act.event.value for act in office.acts] == [
        "service_account.created",
        "api_key.created",
        "api_key.created",
        "service_account.updated",
        "api_key.deleted",
        "service_account.deleted",
    ]


async def test_keys_end_with_their_project_and_their_owner(office: Office) -> None:
    made = await office.sdk.projects.service_accounts.create("proj_0", name="Importer")
    await office.sdk.projects.archive("proj_0")
    with pytest.raises(Exception, match="revoked"):
        await accounts_of(office).authenticate(made.api_key.value)
    with pytest.raises(openai.NotFoundError):
        await office.sdk.projects.service_accounts.create("proj_0", name="Another")
    admin = await office.client(key_of("admin")).admin.organization.admin_api_keys.create(name="mine")
    await office.sdk.users.delete("user-admin")
    with pytest.raises(Exception, match="revoked"):
        await accounts_of(office).authenticate(admin.value)


async def test_an_admin_keys_life(office: Office) -> None:
    keys = office.sdk.admin_api_keys
    made = await keys.create(name="Console", expires_in_seconds=60)
    principal = await accounts_of(office).authenticate(made.value)
    assert (principal.project, principal.scopes, principal.user) == ("", ADMIN_SCOPES, "user-owner")
    assert (made.owner.type, made.owner.role, made.expires_at - made.created_at) == ("user", "owner", 60)
    reading = await keys.create(name="Reader", extra_body={"scopes": ["organization.read"]})
    assert (await accounts_of(office).authenticate(reading.value)).scopes == {Scope.ORGANIZATION_READ}
    found = await keys.retrieve(made.id)
    assert not hasattr(found, "value")
    assert [each.name async for each in keys.list(order="desc")] == [
        each.name for each in reversed((await keys.list()).data)
    ]
    assert (await keys.delete(made.id)).deleted
    with pytest.raises(openai.NotFoundError):
        await keys.retrieve(made.id)
    by_operator = await office.client(key_of("operator")).admin.organization.admin_api_keys.create(name="Operator's")
    assert (by_operator.owner.type, by_operator.owner.name) == ("service_account", "operator")


async def test_no_key_makes_one_with_more_rights(office: Office) -> None:
    """H86."""
    refused = await office.ask("POST", "/admin_api_keys", json={"name": "x", "scopes": ["chat.completions"]})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "insufficient_permissions")
    path = "/projects/proj_0/service_accounts"
    for body in (
        {"name": "x", "scopes": ["organization.admin"]},
        {"name": "x", "scopes": ["chat.completions", "organization.read"]},
    ):
        refused = await office.ask("POST", path, json=body)
        assert refused.status_code == 403
    for body, param in (
        ({"name": "x", "scopes": ["root"]}, "scopes[0]"),
        ({"name": "x", "scopes": []}, "scopes"),
        ({"name": "x", "expires_in_seconds": 0}, "expires_in_seconds"),
        ({"name": "x", "models": ["a\nb"]}, "models"),
        ({"name": "x", "spend_limit": {"threshold_amount": -1, **CENTS}}, "spend_limit.threshold_amount"),
    ):
        refused = await office.ask("POST", path, json=body)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
    assert office.stage.organisation.api_keys.records == {}


async def test_budgets_of_organisation_project_and_key(office: Office) -> None:
    made = await office.sdk.projects.service_accounts.create("proj_0", name="Importer")
    for limit, ids in ((office.sdk.spend_limit, {}), (office.sdk.projects.spend_limit, {"project_id": "proj_0"})):
        with pytest.raises(openai.NotFoundError):
            await limit.retrieve(**ids)
        setting = await limit.update(threshold_amount=10_000, **CENTS, **ids)
        assert (setting.threshold_amount, setting.currency, setting.interval) == (10_000, "USD", "month")
        assert setting.enforcement.status == "inactive"
        assert (await limit.retrieve(**ids)).threshold_amount == 10_000
    path = f"/projects/proj_0/api_keys/{made.api_key.id}/spend_limit"
    assert (await office.ask("POST", path, json={"threshold_amount": 7, **CENTS})).json()["threshold_amount"] == 7
    kid = made.api_key.id.removeprefix("key_")
    budgets = office.stage.organisation.balances.balances[OURS].budgets
    assert budgets == {"organisation": 10**11, "project:proj_0": 10**11, f"key:{kid}": 7 * 10**7}
    assert (await office.sdk.spend_limit.delete()).deleted
    assert (await office.sdk.projects.spend_limit.delete("proj_0")).object == "project.spend_limit.deleted"
    assert (await office.ask("DELETE", path)).json() == {
        "object": "project.api_key.spend_limit.deleted",
        "deleted": True,
    }
    assert office.stage.organisation.balances.balances[OURS].budgets == {}
    for wrong in (
        {"threshold_amount": 0},
        {"threshold_amount": 10**12},
        {"threshold_amount": "1"},
        {"currency": "EUR"},
    ):
        refused = await office.ask("POST", "/spend_limit", json={"threshold_amount": 1, **CENTS, **wrong})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, next(iter(wrong)))
    assert {act.event for act in office.acts[2:]} == {Event.BUDGET_UPDATED, Event.BUDGET_DELETED}
