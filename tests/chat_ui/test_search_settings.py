"""Settings of searches for answers: kept with conversations, answers, presets and exports, and checked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from chat_ui.history.search_settings import SearchSettings
from chat_ui.history.steps import Step, StepState
from tests.chat_ui.chat_clients import Scene
from tests.chat_ui.openapi_validation import DescribedPerson

BEST = {"method": "best_of_n", "n": 4, "verifier": "judge"}
VOTE = {"method": "self_consistency", "n": None, "verifier": ""}
SEARCHED = Step(
    0,
    "search",
    "best_of_n",
    StepState.DONE,
    {"step": 1, "paths": [{"path": 1, "text": "It is 7.", "score": 0.5}], "chosen": 1, "generated": 9},
)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.close()


async def person(scene: Scene, name: str = "ada") -> DescribedPerson:
    return DescribedPerson((await scene.person(name=name)).browser)


async def test_answers_are_searched_for_until_the_settings_change(scene: Scene) -> None:
    ada = await person(scene)
    chat = await ada.conversation(test_time_compute=BEST)
    first = await ada.answered(chat)
    await ada.answered(chat, "Again", first["id"])
    answers = [
        each[1].settings for each in scene.engine.asked if not each[1].turns[-1].text.startswith("Write a title")
    ]
    assert [each.test_time_compute for each in answers] == [SearchSettings("best_of_n", 4, "judge")] * 2
    titles = [each[1].settings for each in scene.engine.asked if each[1].turns[-1].text.startswith("Write a title")]
    assert [each.test_time_compute for each in titles] == [None]
    begun = await ada.call("POST", f"/conversations/{chat}/messages/{first['id']}/regenerate", {}, status=202)
    assert begun["answer"]["settings"]["test_time_compute"] == BEST
    await ada.events(chat, begun["answer"]["id"])
    settings = {"model": "tiny", "test_time_compute": {"method": "self_consistency"}}
    await ada.call("PATCH", f"/conversations/{chat}", {"settings": settings})
    assert (await ada.tree(chat))["settings"]["test_time_compute"] == VOTE


async def test_presets_share_links_and_exports_have_them(scene: Scene) -> None:
    scene.engine.words = [SEARCHED, "It is 7."]
    ada = await person(scene)
    settings = {"model": "tiny", "test_time_compute": BEST}
    preset = await ada.call("POST", "/presets", {"name": "Slow", "settings": settings}, status=201)
    assert preset["settings"]["test_time_compute"] == BEST
    chat = await ada.conversation(test_time_compute=BEST)
    await ada.answered(chat)
    token = (await ada.call("POST", f"/conversations/{chat}/share", status=201))["token"]
    assert (await ada.call("GET", f"/shared/{token}"))["messages"][-1]["steps"][0]["data"] == SEARCHED.data
    assert "It is 7." in (await ada.browser.get("/export?format=markdown&ids=all")).content.decode()
    document = json.loads((await ada.browser.get("/export?format=json&ids=all")).content)
    eve = await person(scene, "eve")
    await eve.imported(document)
    theirs = await eve.tree((await eve.call("GET", "/conversations"))["conversations"][0]["id"])
    assert theirs["settings"]["test_time_compute"] == BEST
    assert theirs["messages"][-1]["steps"][0]["data"] == SEARCHED.data


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (BEST, BEST),
        ({"method": "self_consistency", "n": 1_000}, VOTE),
        ({"method": "best_of_n"}, None),
        ({"method": []}, None),
        ([], None),
    ],
)
async def test_invalid_settings_of_an_imported_file_are_left_out(scene: Scene, given: Any, kept: Any) -> None:
    ada = await person(scene)
    await ada.answered(await ada.conversation())
    document = json.loads((await ada.browser.get("/export?format=json&ids=all")).content)
    document["conversations"][0]["settings"]["test_time_compute"] = given
    eve = await person(scene, "eve")
    await eve.imported(document)
    theirs = (await eve.call("GET", "/conversations"))["conversations"][0]["id"]
    assert (await eve.tree(theirs))["settings"]["test_time_compute"] == kept


@pytest.mark.parametrize(
    "refused",
    [
        {"method": "best_of_n"},
        {"method": "self_consistency", "verifier": "judge"},
        {"method": "guess"},
        {"method": "self_consistency", "n": 65},
    ],
)
async def test_settings_that_no_search_can_have_are_refused(scene: Scene, refused: Any) -> None:
    body = {"settings": {"model": "tiny", "test_time_compute": refused}}
    await (await person(scene)).call("POST", "/conversations", body, status=400)
