"""No route gives access to another person's conversations, in the same or another organisation (H103)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from fastapi.routing import iter_route_contexts

from auth_billing.access.roles import Role
from tests.chat_ui.chat_clients import SETTINGS, Scene, eventually


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.close()


BODIES: dict[str, Any] = {
    "/messages": {"text": "Mine now"},
    "": {"title": "Mine now", "pinned": True},
    "/presets": {"name": "Mine now"},
}


def calls(scene: Scene, ids: dict[str, str]) -> Iterator[tuple[str, str, Any]]:
    """Yield method, path and body for every route with the id of a person's record."""
    for route in iter_route_contexts(scene.app.routes):
        if route.path is None or not any(f"{{{name}}}" in route.path for name in ids):
            continue
        path = route.path.removeprefix("/api")
        for name, value in ids.items():
            path = path.replace(f"{{{name}}}", value)
        last = "/presets" if path.startswith("/presets") else path.rpartition(ids["conversation_id"])[2]
        for method in route.methods or ():
            yield method, path, BODIES.get(last, {}) if method in ("POST", "PATCH") else None


@pytest.mark.parametrize("organisation", ["org-acme", "org-other"])
async def test_every_route_answers_404_for_other_owners(scene: Scene, organisation: str) -> None:
    scene.engine.words = ["The secret answer."]
    ada = await scene.person(name="ada")
    conversation = await ada.conversation()
    answer = await ada.answered(conversation, "The secret question")
    preset = await ada.call("POST", "/presets", {"name": "The secret preset", "settings": SETTINGS}, status=201)
    before = (await ada.tree(conversation), await ada.call("GET", "/presets"))
    eve = await scene.person(Role.OWNER, "eve", organisation)
    ids = {"conversation_id": conversation, "message_id": answer["id"], "preset_id": preset["id"]}
    missing = {"conversation_id": "conv-x", "message_id": "msg-x", "preset_id": "preset-x"}
    walked = list(calls(scene, ids))
    assert len(walked) >= 11
    for (method, path, body), (_, nowhere, _) in zip(walked, calls(scene, missing), strict=True):
        refused = await eve.call(method, path, body, status=404)
        assert refused == await eve.call(method, nowhere, body, status=404), path
    await eve.call("GET", f"/export?format=json&ids={conversation}", status=404)
    exported = await eve.browser.get("/export?format=csv&ids=all")
    assert "secret" not in exported.text
    for path in ("/conversations", "/conversations?q=secret", "/presets"):
        assert "secret" not in str(await eve.call("GET", path))
    assert before == (await ada.tree(conversation), await ada.call("GET", "/presets"))


async def test_another_persons_message_can_not_be_parent_or_leaf(scene: Scene) -> None:
    ada, eve = await scene.person(name="ada"), await scene.person(name="eve")
    hers = await ada.conversation()
    answer = await ada.answered(hers, "Secret")
    own = await eve.conversation()
    body = {"text": "Hi", "parent": answer["id"]}
    await eve.call("POST", f"/conversations/{own}/messages", body, status=404)
    await eve.call("PATCH", f"/conversations/{own}", {"leaf": answer["id"]}, status=400)
    await eve.call("POST", f"/conversations/{own}/messages/{answer['id']}/stop", status=404)
    await eve.call("GET", f"/conversations/{own}/messages/{answer['id']}/events", status=404)


async def test_another_persons_answer_can_not_be_stopped(scene: Scene) -> None:
    scene.engine.patient = True
    ada, eve = await scene.person(name="ada"), await scene.person(name="eve")
    conversation = await ada.conversation()
    answer = (await ada.ask(conversation))["answer"]["id"]
    await eve.call("POST", f"/conversations/{conversation}/messages/{answer}/stop", status=404)
    for _ in scene.engine.words:
        scene.engine.go.release()
    await eventually(lambda: scene.chats.history.messages[answer][1].state == "done")


async def test_only_administrators_administer(scene: Scene) -> None:
    member = await scene.person()
    for route in iter_route_contexts(scene.app.routes):
        if route.path is None or not route.path.startswith("/api/admin"):
            continue
        path = route.path.removeprefix("/api").replace("{project_id}", "p").replace("{key_id}", "k")
        path = path.replace("{organisation}", "development")
        for method in route.methods or ():
            refused = await member.call(method, path, None if method == "GET" else {}, status=403)
            assert refused["error"]["code"] == "not_permitted"
