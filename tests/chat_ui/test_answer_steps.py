"""Steps of an answer: streamed, stored, shared, exported and imported, counted, and never in a prompt."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from chat_ui.history.limits import MAX_CONVERSATION_BYTES
from chat_ui.history.steps import MAX_STEPS, Step, StepState
from stored_objects.blobs.addresses import AddressSigner
from stored_objects.blobs.blobs import new_blob_id
from tests.chat_ui.chat_clients import Scene, eventually, text_of
from tests.chat_ui.openapi_validation import DescribedPerson

RESULT: dict[str, Any] = {"type": "weather", "place": {"name": "Gdańsk"}, "$odd.key": 2**62}
RUNNING = Step(1, "tool", "weather", StepState.RUNNING, {"arguments": {"place": "Gdańsk"}})
DONE = replace(RUNNING, state=StepState.DONE, data={**RUNNING.data, "result": RESULT})
ROUTE = Step(0, "route", "router", StepState.DONE, {"choice": "weather", "way": "grammar", "arguments": {}})

OFF = [("*",), ("weather",)]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    scene.engine.words = [ROUTE, RUNNING, DONE, "It ", "rains."]
    yield scene
    await scene.close()


async def person(scene: Scene) -> DescribedPerson:
    return DescribedPerson((await scene.person()).browser)


def states(steps: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(each["number"], each["state"]) for each in steps]


async def test_events_and_tree_have_the_steps(scene: Scene) -> None:
    ada = await person(scene)
    chat = await ada.conversation()
    answer = (await ada.ask(chat))["answer"]["id"]
    events = await ada.events(chat, answer)
    shown = {each[1]["step"]["number"]: each[1]["step"] for each in events if each[0] == "step"}
    assert states(list(shown.values())) == [(0, "done"), (1, "done")]
    assert shown[1]["data"]["result"] == RESULT
    assert text_of(events) == "It rains."
    stored = (await ada.tree(chat))["messages"][1]
    assert states(stored["steps"]) == [(0, "done"), (1, "done")]
    assert stored["steps"][1]["data"]["result"] == RESULT
    assert (await ada.tree(chat))["messages"][0]["steps"] == []


@pytest.mark.parametrize("here", [True, False], ids=["at the gateway that writes", "at another one"])
async def test_a_reload_in_the_middle_shows_the_steps(scene: Scene, *, here: bool) -> None:
    scene.engine.patient = True
    ada = await person(scene)
    chat = await ada.conversation()
    answer = (await ada.ask(chat))["answer"]["id"]
    for _ in range(2):
        scene.engine.go.release()
    await eventually(lambda: len(scene.chats.history.messages[answer][1].steps) == 2)
    if not here:
        ada.browser.move_to(scene.gateway())
    seen = (await ada.tree(chat))["messages"][1]
    assert (seen["state"], states(seen["steps"])) == ("running", [(0, "done"), (1, "running")])
    following = asyncio.create_task(ada.events(chat, answer))
    for _ in range(3):
        scene.engine.go.release()
        await asyncio.sleep(0.02)
    told = [each[1]["step"] for each in await following if each[0] == "step"]
    assert states(told)[-1] == (1, "done")


async def test_an_answer_that_is_stopped_in_a_step_shows_it_as_failed(scene: Scene) -> None:
    scene.engine.words = [ROUTE, RUNNING, "never"]
    scene.engine.patient = True
    ada = await person(scene)
    chat = await ada.conversation()
    answer = (await ada.ask(chat))["answer"]["id"]
    for _ in range(2):
        scene.engine.go.release()
    await eventually(lambda: len(scene.chats.history.messages[answer][1].steps) == 2)
    await ada.call("POST", f"/conversations/{chat}/messages/{answer}/stop", {}, status=202)
    ended = (await ada.events(chat, answer))[-1][1]["message"]
    assert (ended["state"], states(ended["steps"])) == ("stopped", [(0, "done"), (1, "failed")])
    assert ended["steps"][1]["data"]["error"]["code"] == "stopped"


async def test_models_get_only_the_texts_of_ten_tool_answers(scene: Scene) -> None:
    ada = await person(scene)
    chat, parent = await ada.conversation(), None
    for turn in range(11):
        parent = (await ada.answered(chat, f"Question {turn}", parent))["id"]
    asked = [request for _, request in scene.engine.asked if not request.turns[-1].text.startswith("Write a title")]
    turns = [(each.role.value, each.text) for each in asked[-1].turns]
    before = [("user", f"Question {turn}") for turn in range(11)]
    assert turns[::2] == before
    assert turns[1::2] == [("assistant", "It rains.")] * 10
    assert "Gdańsk" not in str(asked)


async def test_an_answer_of_steps_alone_separates_its_question_from_the_next(scene: Scene) -> None:
    scene.engine.words = [RUNNING, DONE]
    ada = await person(scene)
    chat = await ada.conversation()
    first = await ada.answered(chat, "One")
    assert (first["state"], first["text"]) == ("done", "")
    await ada.answered(chat, "Two", first["id"])
    assert [each.text for each in scene.engine.asked[-1][1].turns] == ["One", "", "Two"]


async def test_the_question_of_an_answer_without_result_is_read_with_the_next(scene: Scene) -> None:
    scene.engine.words = [ROUTE]
    ada = await person(scene)
    chat = await ada.conversation()
    first = await ada.answered(chat, "One")
    await ada.answered(chat, "Two", first["id"])
    assert [each.text for each in scene.engine.asked[-1][1].turns] == ["One\n\nTwo"]


async def test_tools_that_are_switched_off_reach_the_model(scene: Scene) -> None:
    ada = await person(scene)
    chat = await ada.conversation(tools_off=["weather"])
    await ada.answered(chat)
    title, asked = (next(each for each in scene.engine.asked if each[1].settings.tools_off == off) for off in OFF)
    assert title[1].turns[-1].text.startswith("Write a title")
    assert asked[1].turns[-1].text == "Hi"
    assert (await ada.tree(chat))["settings"]["tools_off"] == ["weather"]
    eve = DescribedPerson((await scene.person(name="eve")).browser)
    await eve.imported(json.loads((await ada.browser.get("/export?format=json&ids=all")).content))
    theirs = (await eve.call("GET", "/conversations"))["conversations"][0]["id"]
    assert (await eve.tree(theirs))["settings"]["tools_off"] == ["weather"]


async def test_vector_stores_of_the_settings_reach_the_model_and_are_not_imported(scene: Scene) -> None:
    """They are those of a project, so that another account can't read them."""
    ada = await person(scene)
    chat = await ada.conversation(vector_stores=["vs_1"])
    await ada.answered(chat)
    assert [each.settings.vector_stores for _, each in scene.engine.asked] == [("vs_1",), ()]
    assert (await ada.tree(chat))["settings"]["vector_stores"] == ["vs_1"]
    eve = DescribedPerson((await scene.person(name="eve")).browser)
    await eve.imported(json.loads((await ada.browser.get("/export?format=json&ids=all")).content))
    theirs = (await eve.call("GET", "/conversations"))["conversations"][0]["id"]
    assert (await eve.tree(theirs))["settings"]["vector_stores"] == []


async def test_consents_are_kept_with_the_conversation_alone(scene: Scene) -> None:
    ada = await person(scene)
    allowing = {"model": "tiny", "tools_allowed": ["mcp.shop.search@0"]}
    chat = await ada.conversation()
    first = await ada.answered(chat)
    path = f"/conversations/{chat}/messages/{first['id']}/regenerate"

    async def consents(body: dict[str, Any]) -> tuple[str, ...]:
        begun = await ada.call("POST", path, body, status=202)
        await ada.events(chat, begun["answer"]["id"])
        question = [each[1] for each in scene.engine.asked if each[1].turns[-1].text == "Hi"][-1]
        return question.settings.tools_allowed

    assert await consents({"settings": {"model": "tiny"}, "allowed_once": "mcp.shop.search@1"}) == (
        "mcp.shop.search@1",
    )
    assert (await ada.tree(chat))["settings"]["tools_allowed"] == []
    assert await consents({}) == ()
    assert await consents({"settings": allowing}) == ("mcp.shop.search@0",)
    assert (await ada.tree(chat))["settings"]["tools_allowed"] == ["mcp.shop.search@0"]
    assert await consents({"allowed_once": "mcp.shop.sell@1"}) == ("mcp.shop.search@0", "mcp.shop.sell@1")
    await ada.call("PATCH", f"/conversations/{chat}", {"settings": {"model": "tiny"}})
    assert await consents({}) == ()


async def test_consents_are_no_part_of_presets_and_imports(scene: Scene) -> None:
    ada = await person(scene)
    allowing = {"model": "tiny", "tools_allowed": ["mcp.shop.search@0"]}
    preset = await ada.call("POST", "/presets", {"name": "P", "settings": allowing}, status=201)
    assert preset["settings"]["tools_allowed"] == []
    changed = await ada.call("PATCH", f"/presets/{preset['id']}", {"settings": allowing})
    assert changed["settings"]["tools_allowed"] == []
    chat = await ada.conversation()
    await ada.answered(chat)
    await ada.call("PATCH", f"/conversations/{chat}", {"settings": allowing})
    exported = json.loads((await ada.browser.get("/export?format=json&ids=all")).content)
    eve = DescribedPerson((await scene.person(name="eve")).browser)
    await eve.imported(exported)
    theirs = (await eve.call("GET", "/conversations"))["conversations"][0]["id"]
    assert (await eve.tree(theirs))["settings"]["tools_allowed"] == []


async def test_each_branch_has_its_steps(scene: Scene) -> None:
    ada = await person(scene)
    chat = await ada.conversation()
    first = await ada.answered(chat)
    scene.engine.words = ["Sunny."]
    begun = await ada.call("POST", f"/conversations/{chat}/messages/{first['id']}/regenerate", {}, status=202)
    await ada.events(chat, begun["answer"]["id"])
    answers = [each for each in (await ada.tree(chat))["messages"] if each["role"] == "assistant"]
    assert [len(each["steps"]) for each in answers] == [2, 0]


async def test_shared_conversations_show_the_steps(scene: Scene) -> None:
    ada = await person(scene)
    chat = await ada.conversation()
    await ada.answered(chat)
    token = (await ada.call("POST", f"/conversations/{chat}/share", {}, status=201))["token"]
    shared = await ada.call("GET", f"/shared/{token}")
    assert shared["messages"][1]["steps"][1]["data"]["result"] == RESULT


async def test_shared_answers_from_documents_name_no_files_and_quote_no_passages(scene: Scene) -> None:
    passage = {"number": 1, "filename": "salaries.xlsx", "heading_path": ["Board"], "vector_store_id": "vs_1"}
    scene.engine.words = [
        Step(0, "file_search", "", StepState.DONE, {"query": "Hi", "passages": [passage]}),
        Step(1, "reasoning", "", StepState.DONE, {"text": "salaries.xlsx says: 300,000"}),
        "A lot [1].",
    ]
    ada = await person(scene)
    chat = await ada.conversation()
    first = await ada.answered(chat)
    scene.engine.words = [DONE, "It rains."]
    await ada.answered(chat, "And the weather?", first["id"])
    token = (await ada.call("POST", f"/conversations/{chat}/share", {}, status=201))["token"]
    messages = (await ada.call("GET", f"/shared/{token}"))["messages"]
    assert [(each["text"], len(each["steps"])) for each in messages[1::2]] == [("A lot [1].", 0), ("It rains.", 1)]
    assert len((await ada.tree(chat))["messages"][1]["steps"]) == 2


async def test_exports_have_the_results_and_imports_keep_them_without_images(scene: Scene) -> None:
    image = {"type": "image", "prompt": "A cat", "images": [{"blob": "blob_of_somebody_else"}]}
    article = {"type": "article", "title": "Cats", "thumbnail": "/blobs/stolen"}
    scene.engine.words = [
        DONE,
        Step(2, "tool", "image", StepState.DONE, {"result": image}),
        Step(3, "tool", "wikipedia", StepState.DONE, {"result": article}),
        "It rains.",
    ]
    ada, eve = await person(scene), DescribedPerson((await scene.person(name="eve")).browser)
    await ada.answered(await ada.conversation())
    markdown = (await ada.browser.get("/export?format=markdown&ids=all")).text
    assert '*tool: weather* (done)\n\n```json\n{\n "arguments"' in markdown
    assert '"name": "Gdańsk"' in markdown
    document = json.loads((await ada.browser.get("/export?format=json&ids=all")).content)
    steps = document["conversations"][0]["messages"][1]["steps"]
    assert steps[0]["data"]["result"] == RESULT
    steps.append({"number": 4, "kind": "tool", "name": "x", "state": "running", "data": {}})
    steps.append({"number": -1, "kind": "tool", "name": "x", "state": "done", "data": {}})
    steps += [7, {"number": 5, "kind": "tool", "name": "deep", "state": "done", "data": {"a": nested(40)}}]
    assert (await eve.imported(document))["imported"] == 1
    chat = (await eve.call("GET", "/conversations"))["conversations"][0]["id"]
    theirs = (await eve.tree(chat))["messages"][1]["steps"]
    assert states(theirs) == [(1, "done"), (2, "done"), (3, "done"), (5, "done")]
    assert theirs[0]["data"]["result"] == RESULT
    assert theirs[1]["data"]["result"] == {"type": "image", "prompt": "A cat"}
    assert theirs[2]["data"]["result"] == {"type": "article", "title": "Cats"}
    assert theirs[3]["data"] == {}


def nested(levels: int) -> list[Any]:
    return [nested(levels - 1)] if levels else []


async def test_steps_are_counted_as_stored_bytes(scene: Scene) -> None:
    big = replace(DONE, data={"result": {"type": "page", "text": "x" * 100_000}})
    scene.engine.words = [replace(big, number=number) for number in (0, 1, 1)]
    ada = await person(scene)
    chat = await ada.conversation()
    before = (await ada.call("GET", "/usage"))["storage"]["used_bytes"]
    await ada.answered(chat)
    used = (await ada.call("GET", "/usage"))["storage"]["used_bytes"] - before
    assert 200_000 < used < 210_000
    await ada.call("DELETE", f"/conversations/{chat}", status=204)
    assert (await ada.call("GET", "/usage"))["storage"]["used_bytes"] < before


async def test_an_answer_keeps_a_limited_number_of_steps(scene: Scene) -> None:
    scene.engine.words = [replace(DONE, number=number) for number in range(MAX_STEPS + 3)]
    ada = await person(scene)
    ended = await ada.answered(await ada.conversation())
    assert len(ended["steps"]) == MAX_STEPS
    assert MAX_STEPS * 131_072 < MAX_CONVERSATION_BYTES


async def test_images_have_signed_addresses_wherever_they_are_served(scene: Scene) -> None:
    blob = new_blob_id()
    images = [{"blob": blob}, {"blob": "../../secret", "url": "https://evil.example/"}, {"url": "/v1/blobs/x"}, 7]
    image = Step(0, "tool", "image", StepState.DONE, {"result": {"type": "image", "images": images}})
    claimed = replace(image, number=1, data={"result": {"type": "mcp", "images": [{"blob": blob}]}})
    scene.engine.words = [image, claimed]
    ada = await person(scene)
    chat = await ada.conversation()
    answer = (await ada.ask(chat))["answer"]["id"]
    events = await ada.events(chat, answer)
    token = (await ada.call("POST", f"/conversations/{chat}/share", {}, status=201))["token"]
    served = [
        next(each[1]["step"] for each in events if each[0] == "step"),
        events[-1][1]["message"]["steps"][0],
        (await ada.tree(chat))["messages"][1]["steps"][0],
        (await ada.call("GET", f"/shared/{token}"))["messages"][1]["steps"][0],
    ]
    for each in served:
        first, *others = each["data"]["result"]["images"]
        assert first["blob"] == blob
        address = urlsplit(first["url"])
        query = dict(parse_qsl(address.query))
        assert address.path == f"/v1/blobs/{blob}"
        AddressSigner(b"key").verify(blob, query["expires"], query["signature"])
        assert others == [{}, {}]
    assert (await ada.tree(chat))["messages"][1]["steps"][1]["data"]["result"]["images"] == [{"blob": blob}]


async def test_reasoning_is_stored_and_counts_as_the_first_token(scene: Scene) -> None:
    thought = Step(0, "reasoning", "", StepState.RUNNING, {"text": "Hm", "seconds": 0.5})
    scene.engine.words = [thought, replace(thought, state=StepState.DONE), "So."]
    scene.engine.patient = True
    ada = await person(scene)
    chat = await ada.conversation()
    answer = (await ada.ask(chat))["answer"]["id"]
    scene.engine.go.release()
    while not (await ada.tree(chat))["messages"][1]["steps"]:
        await asyncio.sleep(0.01)
    began = time.time()
    for _ in range(2):
        scene.engine.go.release()
    await ada.events(chat, answer)
    stored = (await ada.tree(chat))["messages"][1]
    assert stored["steps"][0]["data"] == thought.data
    assert stored["created"] + stored["first_token_seconds"] < began
