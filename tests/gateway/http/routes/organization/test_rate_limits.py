"""Rate limits through the stock SDK: changes apply to requests."""

from __future__ import annotations

import openai
import pytest

from auth_billing.access.principal import Principal
from auth_billing.audit_log import Event
from tests.gateway.conftest import MODEL
from tests.gateway.http.routes.organization.conftest import OURS, AdminApi

MANY = 1_000_000_000


async def test_limits_of_a_project_and_its_models(admin_api: AdminApi) -> None:
    limits = admin_api.sdk.projects.rate_limits
    page = await limits.list_rate_limits("proj_0")
    assert [(each.id, each.model, each.max_requests_per_1_minute) for each in page.data] == [
        ("rl-*", "*", MANY),
        (f"rl-{MODEL}", MODEL, MANY),
    ]
    changed = await limits.update_rate_limit(f"rl-{MODEL}", project_id="proj_0", max_requests_per_1_minute=1)
    assert (changed.object, changed.max_requests_per_1_minute) == ("project.rate_limit", 1)
    assert changed.max_tokens_per_1_minute == MANY
    assert [(act.event, act.target, dict(act.details)) for act in admin_api.audit_entries] == [
        (Event.RATE_LIMIT_UPDATED, f"rl-{MODEL}", {"max_requests_per_1_minute": 1})
    ]
    admin_api.stage.accounts.added["hr_live_user"] = Principal("user-key", OURS, "salt", project="proj_0")
    client = admin_api.client().with_options(api_key="hr_live_user")
    messages = [{"role": "user", "content": "hi"}]
    await client.chat.completions.create(model=MODEL, messages=messages)  # type: ignore[arg-type]
    with pytest.raises(openai.RateLimitError):
        await client.chat.completions.create(model=MODEL, messages=messages)  # type: ignore[arg-type]


async def test_invalid_limits_are_refused(admin_api: AdminApi) -> None:
    path = "/projects/proj_0/rate_limits"
    for name in ("rl-no/model", MODEL, "nothing"):
        assert (await admin_api.request("POST", f"{path}/{name}", json={})).status_code == 404
    for body, param in (
        ({"max_requests_per_1_minute": 0}, "max_requests_per_1_minute"),
        ({"max_tokens_per_1_minute": 2**63}, "max_tokens_per_1_minute"),
        ({"max_images_per_1_minute": 1}, "max_images_per_1_minute"),
    ):
        refused = await admin_api.request("POST", f"{path}/rl-*", json=body)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
    assert admin_api.audit_entries == []
