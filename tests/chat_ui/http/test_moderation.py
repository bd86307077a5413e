"""The page's settings of moderation: what is checked of a project's texts, for administrators of its organisation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from auth_billing.access.roles import Role
from auth_billing.people.moderation_policies import ModerationPolicy
from tests.chat_ui.chat_clients import Scene
from tests.fakes.sessions import ORGANISATION

RULES = "moderation-rules"


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.close()


def policies(scene: Scene) -> dict[tuple[str, str], ModerationPolicy]:
    return scene.chats.organisation.moderation_policies.policies


async def test_an_administrator_sets_and_ends_the_checks_of_a_project(scene: Scene) -> None:
    ada = await scene.person(Role.ADMIN, name="ada")
    listed = await ada.call("GET", "/admin/moderation")
    assert (listed["models"], listed["categories"]) == ([RULES], ["hate", "violence"])
    [row] = listed["projects"]
    nothing = {"model": None, "categories": None, "prompts": False, "answers": False}
    assert {name: row[name] for name in nothing} == nothing
    body = {"project": row["project"], "model": RULES, "categories": ["violence", "hate"], "answers": False}
    [changed] = (await ada.call("POST", "/admin/moderation", body))["projects"]
    assert changed == {**row, "model": RULES, "categories": ["hate", "violence"], "prompts": True, "answers": False}
    [policy] = policies(scene).values()
    assert policy == ModerationPolicy(RULES, frozenset({"hate", "violence"}), prompts=True, answers=False)
    [ended] = (await ada.call("POST", "/admin/moderation", {"project": row["project"], "model": None}))["projects"]
    assert (ended, policies(scene)) == (row, {})
    entries = (await ada.call("GET", "/admin/audit"))["entries"][:2]
    assert [(each["event"], each["details"]) for each in entries] == [
        ("moderation.deleted", {}),
        ("moderation.updated", {name: changed[name] for name in nothing}),
    ]


async def test_a_model_that_is_set_may_stay_while_it_is_not_served(scene: Scene) -> None:
    ada = await scene.person(Role.ADMIN, name="ada")
    [row] = (await ada.call("GET", "/admin/moderation"))["projects"]
    body = {"project": row["project"], "model": "toxic-bert"}
    refused = await ada.call("POST", "/admin/moderation", body, status=400)
    assert refused["error"]["param"] == "model"
    place = scene.chats.organisation.moderation_policies
    await place.put(ORGANISATION, row["project"], ModerationPolicy("toxic-bert"))
    assert (await ada.call("POST", "/admin/moderation", {**body, "answers": False}))["projects"][0]["answers"] is False


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"project": "proj-other"}, 404),
        ({"prompts": False, "answers": False}, 400),
        ({"categories": []}, 400),
    ],
)
async def test_impossible_checks_are_refused(scene: Scene, changes: dict[str, Any], status: int) -> None:
    ada = await scene.person(Role.ADMIN, name="ada")
    [row] = (await ada.call("GET", "/admin/moderation"))["projects"]
    body = {"project": row["project"], "model": RULES, **changes}
    await ada.call("POST", "/admin/moderation", body, status=status)
    assert policies(scene) == {}


async def test_members_neither_see_nor_set_checks(scene: Scene) -> None:
    bob = await scene.person(Role.MEMBER, name="bob")
    await bob.call("GET", "/admin/moderation", status=403)
    await bob.call("POST", "/admin/moderation", {"project": "proj_0", "model": RULES}, status=403)
