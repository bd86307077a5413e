"""Rate limits through the stock SDK: changes apply to requests."""

from __future__ import annotations

import httpx
import openai
import pytest

from auth_billing.access.principal import Principal
from auth_billing.audit_log import Event
from auth_billing.rate_limits.limits import key_subject
from gateway.openai.organization.keys import parse_key_id
from tests.gateway.conftest import MODEL
from tests.gateway.http.routes.organization.conftest import OURS, AdminApi, key_of

MANY = 1_000_000_000
LIFTED = {"max_requests_per_1_minute": MANY}


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


async def chat(admin_api: AdminApi, key: str) -> httpx.Response:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    return await admin_api.stage.client.post(
        "/v1/chat/completions", json=body, headers={"authorization": f"Bearer hr_live_{key}"}
    )


def add_keys(admin_api: AdminApi, user: str, *keys: str) -> None:
    for key in keys:
        added = Principal(key, OURS, "salt", project="proj_0", user=user)
        admin_api.stage.accounts.added[f"hr_live_{key}"] = added


@pytest.mark.parametrize("admin_api", [{"limits_per_key": "9 requests/minute"}], indirect=True)
async def test_a_persons_limit_is_for_all_keys_and_the_nearest_limit_is_reported(admin_api: AdminApi) -> None:
    add_keys(admin_api, "user-member", "first", "second")
    path, body = "/users/user-member/rate_limit", {"max_requests_per_1_minute": 2, "max_tokens_per_1_minute": 5000}
    changed = await admin_api.request("POST", path, json=body, key=key_of("admin"))
    assert (changed.status_code, changed.json()) == (
        200,
        {
            "object": "organization.user.rate_limit",
            "id": "user-member",
            "max_requests_per_1_minute": 2,
            "max_tokens_per_1_minute": 5000,
            "max_requests_per_1_day": MANY,
            "max_concurrent_requests": MANY,
        },
    )
    assert (await admin_api.request("GET", path, key=key_of("reader"))).json() == changed.json()
    answers = [await chat(admin_api, key) for key in ("first", "second", "first")]
    assert [each.status_code for each in answers] == [200, 200, 429]
    assert "this user's API keys and chats together" in answers[-1].json()["error"]["message"]
    limits = [each.headers["x-ratelimit-limit-requests"] for each in answers]
    assert (limits, answers[1].headers["x-ratelimit-remaining-requests"]) == (["2", "2", "2"], "0")
    assert answers[0].headers["x-ratelimit-limit-tokens"] == "5000"
    assert "x-ratelimit-limit-project-tokens" not in answers[0].headers
    removed = await admin_api.request("POST", path, json={"max_requests_per_1_minute": MANY})
    assert removed.json()["max_requests_per_1_minute"] == MANY
    assert (await chat(admin_api, "second")).status_code == 200
    assert [(act.event, act.target, act.actor.key_id, dict(act.details)) for act in admin_api.audit_entries] == [
        (Event.RATE_LIMIT_UPDATED, "user-member", "admin", body),
        (Event.RATE_LIMIT_UPDATED, "user-member", "owner", {"max_requests_per_1_minute": MANY}),
    ]


async def test_a_person_at_the_limit_can_be_administered_but_only_owners_limit_owners_and_administrators(
    admin_api: AdminApi,
) -> None:
    for _ in range(3):  # the owner's admin keys have no limit of a person
        path, body = "/users/user-owner/rate_limit", {"max_requests_per_1_minute": 1}
        assert (await admin_api.request("POST", path, json=body)).status_code == 200
    own = "/users/user-admin/rate_limit"
    assert (await admin_api.request("POST", own, json=body)).status_code == 200
    for limited in (path, own):
        refused = await admin_api.request("POST", limited, json=LIFTED, key=key_of("admin"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "insufficient_permissions")
    for user in ("user-nobody", "user-left"):
        assert (await admin_api.request("POST", f"/users/{user}/rate_limit", json=body)).status_code == 404


async def test_a_keys_limit(admin_api: AdminApi) -> None:
    projects = admin_api.sdk.projects
    account = await projects.service_accounts.create("proj_0", name="ci")
    shown = account.api_key.id
    path = f"/projects/proj_0/api_keys/{shown}/rate_limit"
    changed = await admin_api.request("POST", path, json={"max_concurrent_requests": 3})
    assert (changed.json()["object"], changed.json()["id"]) == ("project.api_key.rate_limit", shown)
    assert (await admin_api.request("GET", path)).json()["max_concurrent_requests"] == 3
    limiter = admin_api.stage.gateway.limits
    (limits,) = await limiter.book.limits_of([key_subject(parse_key_id(shown), "")])
    assert limits.concurrent == 3
    entry = admin_api.audit_entries[-1]
    assert (entry.event, entry.target, entry.project) == (Event.RATE_LIMIT_UPDATED, shown, "proj_0")
    another = await projects.create(name="Another")
    elsewhere = f"/projects/{another.id}/api_keys/{shown}/rate_limit"
    assert (await admin_api.request("POST", elsewhere, json={"max_concurrent_requests": 3})).status_code == 404


@pytest.mark.parametrize(
    "admin_api", [{"limits_per_key": "50 requests/minute", "limits_per_person": "70 requests/minute"}], indirect=True
)
async def test_limits_of_keys_and_people_stay_below_the_operators(admin_api: AdminApi) -> None:
    account = await admin_api.sdk.projects.service_accounts.create("proj_0", name="ci")
    of_key = f"/projects/proj_0/api_keys/{account.api_key.id}/rate_limit"
    for path, ceiling in ((of_key, 50), ("/users/user-member/rate_limit", 70)):
        for wish, given in ((MANY, ceiling), (100, ceiling), (1, 1), (MANY, ceiling)):
            changed = await admin_api.request("POST", path, json={"max_requests_per_1_minute": wish})
            assert changed.json()["max_requests_per_1_minute"] == given


async def test_a_model_is_limited_over_all_projects(admin_api: AdminApi) -> None:
    created = await admin_api.sdk.projects.create(name="Another")
    listed = await admin_api.request("GET", "/rate_limits")
    assert [(each["id"], each["object"]) for each in listed.json()["data"]] == [
        ("rl-*", "organization.rate_limit"),
        (f"rl-{MODEL}", "organization.rate_limit"),
    ]
    changed = await admin_api.request("POST", f"/rate_limits/rl-{MODEL}", json={"max_requests_per_1_minute": 3})
    assert (changed.json()["model"], changed.json()["max_requests_per_1_minute"]) == (MODEL, 3)
    assert await admitted(admin_api, "proj_0", created.id) == 3
    other = await admin_api.stage.chat()  # of another organisation
    assert (other.status_code, other.headers["x-ratelimit-limit-requests"]) == (200, str(MANY))


@pytest.mark.parametrize("value", [0, -1, 10**9 + 1, 2**63, 1.5, "5", True, float("1e30")])
async def test_absurd_limits_of_people_and_models_are_refused(admin_api: AdminApi, value: object) -> None:
    for path in ("/users/user-member/rate_limit", f"/rate_limits/rl-{MODEL}", "/rate_limits/rl-*"):
        refused = await admin_api.request("POST", path, json={"max_requests_per_1_day": value})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "max_requests_per_1_day")
    assert admin_api.audit_entries == []
