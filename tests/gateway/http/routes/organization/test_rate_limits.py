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


async def admitted(admin_api: AdminApi, *projects: str) -> int:
    """Return how many of 12 requests are admitted, of a key in each project in turn."""
    for project in projects:
        added = Principal(f"key-{project}", OURS, "salt", project=project)
        admin_api.stage.accounts.added[f"hr_live_{project}"] = added
    statuses = []
    for number in range(12):
        headers = {"authorization": f"Bearer hr_live_{projects[number % len(projects)]}"}
        body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
        statuses.append(await admin_api.stage.client.post("/v1/chat/completions", json=body, headers=headers))
    assert {each.status_code for each in statuses} <= {200, 429}
    return sum(each.status_code == 200 for each in statuses)


@pytest.mark.parametrize(
    ("admin_api", "limit_id"),
    [
        ({"limits_per_project": "2 requests/minute, 3 requests/day"}, "rl-*"),
        ({"limits_per_model": "2 requests/minute, 3 requests/day"}, f"rl-{MODEL}"),
    ],
    indirect=["admin_api"],
)
async def test_administrators_lower_the_operators_limits_and_do_not_lift_them(
    admin_api: AdminApi, limit_id: str
) -> None:
    limits = admin_api.sdk.projects.rate_limits
    for wish, given in ((MANY, 2), (100, 2), (1, 1), (MANY, 2)):
        changed = await limits.update_rate_limit(limit_id, project_id="proj_0", max_requests_per_1_minute=wish)
        assert (changed.max_requests_per_1_minute, changed.max_requests_per_1_day) == (given, 3)
    assert await admitted(admin_api, "proj_0") == 2


@pytest.mark.parametrize("admin_api", [{"limits_per_organisation": "3 requests/minute, 64 concurrent"}], indirect=True)
async def test_an_organisation_has_one_limit_over_all_its_projects(admin_api: AdminApi) -> None:
    created = await admin_api.sdk.projects.create(name="Another")
    for project in ("proj_0", created.id):
        for limit_id in ("rl-*", f"rl-{MODEL}"):
            await admin_api.sdk.projects.rate_limits.update_rate_limit(
                limit_id, project_id=project, max_requests_per_1_minute=MANY, max_requests_per_1_day=MANY
            )
    assert await admitted(admin_api, "proj_0", created.id) == 3
    other = await admin_api.stage.chat()  # of another organisation
    assert (other.status_code, other.headers["x-ratelimit-limit-requests"]) == (200, "3")


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
