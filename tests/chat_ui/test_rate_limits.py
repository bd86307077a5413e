"""The administration routes of rate limits: rights, bounds, ceilings, and what the person's usage page shows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from auth_billing.access.roles import Role
from auth_billing.audit_log import Event
from auth_billing.rate_limits.limits import UNLIMITED, Limits, organisation_model_subject, person_subject
from tests.chat_ui.chat_clients import Person, Scene
from tests.fakes.scripted_engine import MODEL
from tests.fakes.sessions import ORGANISATION

NONE: dict[str, Any] = dict.fromkeys(
    ("requests_per_minute", "tokens_per_minute", "requests_per_day", "concurrent_requests")
)
PATH = "/admin/rate_limits"


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.close()


async def user_of(person: Person) -> str:
    return str((await person.call("GET", "/me"))["user"]["id"])


async def test_an_administrator_sets_and_removes_the_limits_of_a_member(scene: Scene) -> None:
    owner, ada = await scene.person(Role.OWNER), await scene.person(name="ada")
    user = await user_of(ada)
    scene.chats.limits.limits[person_subject(ORGANISATION, user).operator_id] = Limits(requests_per_minute=50)
    wish = {**NONE, "subject": f"person:{user}", "requests_per_minute": 70, "tokens_per_minute": 9}
    row = await owner.call("POST", PATH, wish)
    assert row == {
        "subject": f"person:{user}",
        "label": "ada",
        "own": {**NONE, "requests_per_minute": 70, "tokens_per_minute": 9},
        "ceiling": {**NONE, "requests_per_minute": 50},
    }
    assert (await owner.call("GET", f"{PATH}?subject=person:{user}"))["limits"] == [row]
    shown = (await ada.call("GET", "/usage?days=1"))["limits"]
    assert shown[0] == {**NONE, "subject": "you", "requests_per_minute": 50, "tokens_per_minute": 9}
    assert (await owner.call("POST", PATH, {**NONE, "subject": f"person:{user}"}))["own"] == NONE
    shown = (await ada.call("GET", "/usage?days=1"))["limits"]
    assert shown[0] == {**NONE, "subject": "you", "requests_per_minute": 50}
    entries = [each for each in scene.audit.entries if each.target == f"person:{user}"]
    assert [(each.event, each.details["tokens_per_minute"]) for each in entries] == [
        (Event.RATE_LIMIT_UPDATED, 9),
        (Event.RATE_LIMIT_DELETED, None),
    ]


async def test_the_limits_of_organisation_models_projects_and_keys(scene: Scene) -> None:
    owner = await scene.person(Role.OWNER)
    project = f"proj_{ORGANISATION}"
    key = await owner.call("POST", "/admin/keys", {"project": project, "name": "ci"}, status=201)
    listed = (await owner.call("GET", PATH))["limits"]
    shared = ["organisation", f"model:{MODEL}", f"project:{project}"]
    assert [each["subject"] for each in listed] == shared
    of_key = f"key:{key['key']['id']}"
    for number, subject in enumerate([*shared, of_key], 1):
        set_to = await owner.call("POST", PATH, {**NONE, "subject": subject, "concurrent_requests": number})
        assert set_to["own"] == {**NONE, "concurrent_requests": number}
    stored = scene.chats.limits.limits
    ids = [
        f"organisation:{ORGANISATION}",
        organisation_model_subject(ORGANISATION, MODEL).id,
        f"project:{project}",
        of_key,
    ]
    assert [stored[each].concurrent for each in ids] == [1, 2, 3, 4]
    (shown,) = (await owner.call("GET", f"{PATH}?subject={of_key}"))["limits"]
    assert (shown["label"], shown["own"]["concurrent_requests"]) == ("ci", 4)


async def test_limits_of_another_organisation_do_not_exist(scene: Scene) -> None:
    owner, ada = await scene.person(Role.OWNER), await scene.person(name="ada")
    rival = await scene.person(Role.OWNER, "rival", "org-other")
    wish = {"project": f"proj_{ORGANISATION}", "name": "ci"}
    key = (await owner.call("POST", "/admin/keys", wish, status=201))["key"]["id"]
    subjects = [f"key:{key}", f"person:{await user_of(ada)}", f"project:proj_{ORGANISATION}"]
    for subject in [*subjects, "model:no-such", "organisation:org-acme", "operator:key:1", "key:", "person:", "x"]:
        body = {**NONE, "subject": subject, "requests_per_minute": 1}
        refused = await rival.call("POST", PATH, body, status=404)
        assert refused == await rival.call("GET", f"{PATH}?subject={subject}", status=404)
    assert scene.chats.limits.limits == {}


async def test_only_owners_limit_owners_and_administrators(scene: Scene) -> None:
    owner, admin = await scene.person(Role.OWNER), await scene.person(Role.ADMIN)
    for limited in (owner, admin):
        body = {**NONE, "subject": f"person:{await user_of(limited)}", "requests_per_minute": 1}
        assert (await admin.call("POST", PATH, body, status=403))["error"]["code"] == "not_permitted"
        assert (await admin.call("GET", f"{PATH}?subject={body['subject']}"))["limits"][0]["own"] == NONE
        await owner.call("POST", PATH, body)
        lifted = await admin.call("POST", PATH, {**body, "requests_per_minute": None}, status=403)
        assert lifted["error"]["code"] == "not_permitted"
    member = await user_of(await scene.person(name="ada"))
    await admin.call("POST", PATH, {**body, "subject": f"person:{member}"})


@pytest.mark.parametrize("value", [0, -1, UNLIMITED, 2**63, 1.5, "5", True])
async def test_absurd_limits_are_refused(scene: Scene, value: Any) -> None:
    owner = await scene.person(Role.OWNER)
    body = {**NONE, "subject": "organisation", "requests_per_day": value}
    refused = await owner.call("POST", PATH, body, status=400)
    assert refused["error"]["param"] == "requests_per_day"
    await owner.call("POST", PATH, {"subject": "organisation", "requests_per_day": 5}, status=400)  # the others missing
    assert scene.chats.limits.limits == {}
