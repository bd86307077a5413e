"""Service accounts and their keys, through the stock SDK's admin client."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from auth_billing.access.model_access import ALL_MODELS
from auth_billing.access.scopes import Scope
from auth_billing.audit_log import Event
from auth_billing.authenticator import Authenticator
from router.messages import KeySet
from tests.gateway.http.routes.organization.conftest import OURS, AdminApi

CENTS: Any = {"currency": "USD", "interval": "month"}


def authenticator_of(admin_api: AdminApi) -> Authenticator:
    """Return the authenticator of a gateway with the same store."""
    return Authenticator(admin_api.stage.organisation.api_keys, b"p" * 32)


async def test_a_service_account_has_a_key_with_scopes_and_a_budget(admin_api: AdminApi) -> None:
    made = await admin_api.sdk.projects.service_accounts.create(
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
    principal = await authenticator_of(admin_api).authenticate(key.value)
    assert (principal.tenant, principal.project, principal.user) == (OURS, "proj_0", made.id)
    assert principal.scopes == {Scope.CHAT_COMPLETIONS}
    assert principal.models == ALL_MODELS.restricted_to(frozenset({"org/model"}))
    assert admin_api.stage.organisation.balances.balances[OURS].budgets == {f"key:{principal.key_id}": 2_500_000_000}
    found = await admin_api.sdk.projects.api_keys.retrieve(key.id, project_id="proj_0")
    assert (found.owner.type, found.owner.service_account.name) == ("service_account", "Importer")
    assert found.redacted_value.endswith(key.value[-4:])
    assert (found.scopes, found.models, found.expires_at - found.created_at) == (
        ["chat.completions"],
        ["org/model"],
        3600,
    )
    assert [act.event for act in admin_api.audit_entries] == [Event.SERVICE_ACCOUNT_CREATED, Event.API_KEY_CREATED]
    assert admin_api.audit_entries[1].details["spend_limit_cents"] == 250
    assert key.value not in repr(admin_api.audit_entries)
    listed = await admin_api.request("GET", "/projects/proj_0/api_keys")
    assert key.value not in listed.text


async def test_service_accounts_are_created_renamed_and_deleted(admin_api: AdminApi) -> None:
    accounts = admin_api.sdk.projects.service_accounts
    made = await accounts.create("proj_0", name="Importer", create_service_account_only=True)
    assert made.api_key is None
    first = await accounts.api_keys.create(made.id, project_id="proj_0", name="First", scopes=["embeddings"])
    second = await accounts.api_keys.create(made.id, project_id="proj_0")
    assert [each.name async for each in admin_api.sdk.projects.api_keys.list("proj_0", limit=1)] == [
        "Importer",
        "First",
    ]
    assert (await accounts.update(made.id, project_id="proj_0", name="Exporter")).name == "Exporter"
    assert [each.name async for each in accounts.list("proj_0")] == ["Exporter"]
    assert (await admin_api.sdk.projects.api_keys.delete(first.id, project_id="proj_0")).deleted
    assert (await accounts.delete(made.id, project_id="proj_0")).deleted
    for key in (first, second):
        with pytest.raises(Exception, match="revoked"):
            await authenticator_of(admin_api).authenticate(key.value)
    with pytest.raises(openai.NotFoundError):
        await accounts.retrieve(made.id, project_id="proj_0")
    assert admin_api.stage.organisation.news == [
        KeySet(key=first.id.removeprefix("key_")),
        KeySet(organisation=OURS, project="proj_0", user=made.id),
    ]
    assert [act.event.value for act in admin_api.audit_entries] == [
        "service_account.created",
        "api_key.created",
        "api_key.created",
        "service_account.updated",
        "api_key.deleted",
        "service_account.deleted",
    ]


async def test_a_key_cannot_create_one_with_more_scopes(admin_api: AdminApi) -> None:
    """H86."""
    refused = await admin_api.request("POST", "/admin_api_keys", json={"name": "x", "scopes": ["chat.completions"]})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "insufficient_permissions")
    path = "/projects/proj_0/service_accounts"
    for body in (
        {"name": "x", "scopes": ["organization.admin"]},
        {"name": "x", "scopes": ["chat.completions", "organization.read"]},
    ):
        refused = await admin_api.request("POST", path, json=body)
        assert refused.status_code == 403
    invalid: list[tuple[dict[str, Any], str]] = [
        ({"name": "x", "scopes": ["root"]}, "scopes[0]"),
        ({"name": "x", "scopes": []}, "scopes"),
        ({"name": "x", "expires_in_seconds": 0}, "expires_in_seconds"),
        ({"name": "x", "models": ["a\nb"]}, "models"),
        ({"name": "x", "spend_limit": {"threshold_amount": -1, **CENTS}}, "spend_limit.threshold_amount"),
    ]
    for body, param in invalid:
        refused = await admin_api.request("POST", path, json=body)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
    assert admin_api.stage.organisation.api_keys.records == {}
