"""Conversations through the chat API: asking, branching, searching, sharing, deleting."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from auth_billing.access.roles import Role
from chat_ui.generations.model_client import AnswerFailed
from chat_ui.history.limits import MAX_ATTACHMENT_BYTES, MAX_MESSAGES, MAX_QUESTION_CHARS
from tests.chat_ui.chat_clients import SETTINGS, Scene, eventually, text_of
from tests.fakes.scripted_engine import MODEL


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.close()


async def test_a_question_is_answered_with_usage_and_cost(scene: Scene) -> None:
    person = await scene.person()
    conversation = await person.conversation(temperature=0.5, system="Be kind.")
    asked = await person.ask(conversation, "Hi")
    assert asked["answer"]["state"] == "waiting"
    events = await person.events(conversation, asked["answer"]["id"])
    assert text_of(events) == "Hello you."
    answer = events[-1][1]["message"]
    assert (events[-1][0], answer["state"], answer["finish_reason"]) == ("done", "done", "stop")
    assert answer["usage"] == {"prompt_tokens": 5, "cached_tokens": 2, "completion_tokens": 2}
    assert answer["cost_nano"] == 12
    assert answer["seconds"] >= answer["first_token_seconds"] >= 0
    tree = await person.tree(conversation)
    assert [each["text"] for each in tree["messages"]] == ["Hi", "Hello you."]
    assert tree["leaf"] == answer["id"]
    principal, ask = scene.engine.asked[0]
    assert (principal.user, principal.key_id, principal.project) == (
        (await person.call("GET", "/me"))["user"]["id"],
        "",
        (await person.call("GET", "/me"))["project"],
    )
    assert (ask.settings.system, ask.settings.temperature) == ("Be kind.", 0.5)


async def test_the_model_generates_the_title_once(scene: Scene) -> None:
    person = await scene.person()
    conversation = await person.conversation()
    asked = await person.ask(conversation, "Hi")
    events = await person.events(conversation, asked["answer"]["id"], titles=True)
    assert events[-1][:2] == ("title", {"title": "A title"})
    assert (await person.tree(conversation))["title"] == "A title"
    await person.answered(conversation, "More", asked["answer"]["id"])
    assert len(scene.engine.asked) == 3


async def test_without_an_answer_the_title_is_the_question(scene: Scene) -> None:
    scene.engine.words = [AnswerFailed("overloaded", "Busy.", 3)]
    person = await scene.person()
    conversation = await person.conversation()
    asked = await person.ask(conversation, "How do turbines\nwork?")
    events = await person.events(conversation, asked["answer"]["id"], titles=True)
    assert [each[0] for each in events[-2:]] == ["failed", "title"]
    failed = events[-2][1]["message"]
    assert failed["error"] == {"code": "overloaded", "message": "Busy.", "retry_after": 3}
    assert (await person.tree(conversation))["title"] == "How do turbines"


async def test_a_failed_answer_keeps_its_text_and_cost(scene: Scene) -> None:
    scene.engine.words = ["Half ", AnswerFailed("worker_lost", "The worker was lost.", 1)]
    person = await scene.person()
    failed = await person.answered(await person.conversation())
    assert (failed["state"], failed["text"], failed["cost_nano"]) == ("failed", "Half ", 11)


async def test_editing_and_regenerating_create_branches(scene: Scene) -> None:
    person = await scene.person()
    conversation = await person.conversation()
    first = await person.ask(conversation, "One")
    await person.events(conversation, first["answer"]["id"])
    second = await person.ask(conversation, "Two", first["answer"]["id"])
    await person.events(conversation, second["answer"]["id"])
    edited = await person.answered(conversation, "Two, edited", second["question"]["parent"])
    path = f"/conversations/{conversation}/messages/{edited['id']}/regenerate"
    again = (await person.call("POST", path, {"settings": {**SETTINGS, "temperature": 1.5}}, status=202))["answer"]
    await person.events(conversation, again["id"])
    assert again["parent"] == edited["parent"]
    tree = await person.tree(conversation)
    assert (len(tree["messages"]), tree["leaf"]) == (7, again["id"])
    asked = [ask for _, ask in scene.engine.asked if not ask.turns[-1].text.startswith("Write a title")]
    assert [turn.text for turn in asked[-1].turns] == ["One", "Hello you.", "Two, edited"]
    assert asked[-1].settings.temperature == 1.5
    changed = await person.call("PATCH", f"/conversations/{conversation}", {"leaf": second["answer"]["id"]})
    assert changed["id"] == conversation
    assert (await person.tree(conversation))["leaf"] == second["answer"]["id"]


async def test_files_go_to_the_model_and_are_not_returned(scene: Scene) -> None:
    person = await scene.person()
    conversation = await person.conversation()
    files = [{"name": 'a"b.txt', "text": "żółw"}]
    asked = await person.ask(conversation, "Read it", attachments=files)
    assert asked["question"]["attachments"] == [{"name": 'a"b.txt', "size": 7}]
    await person.events(conversation, asked["answer"]["id"])
    assert scene.engine.asked[0][1].turns[0].text == '<file name="a\'b.txt">\nżółw\n</file>\n\nRead it'
    assert "żółw" not in str(await person.tree(conversation))


async def test_an_edited_question_keeps_its_files(scene: Scene) -> None:
    person = await scene.person()
    conversation, other = await person.conversation(), await person.conversation()
    asked = await person.ask(conversation, "Read it", attachments=[{"name": "a", "text": "x"}])
    first = asked["question"]["id"]
    edited = await person.ask(conversation, "Read", attachments=[{"name": "b", "text": "y"}], attachments_of=first)
    assert [file["name"] for file in edited["question"]["attachments"]] == ["a", "b"]
    await person.events(conversation, edited["answer"]["id"])
    told = [ask.turns[-1].text for _, ask in scene.engine.asked]
    assert [text for text in told if text.startswith("<file name") and text.endswith("</file>\n\nRead")]
    body = {"parent": None, "text": "Hi", "attachments_of": first}
    await person.call("POST", f"/conversations/{other}/messages", body, status=404)


async def test_stopping_cancels_the_generation_and_keeps_the_text(scene: Scene) -> None:
    scene.engine.patient = True
    person = await scene.person()
    conversation = await person.conversation()
    asked = await person.ask(conversation)
    answer = asked["answer"]["id"]
    scene.engine.go.release()
    await eventually(lambda: bool(scene.apps[0].state.services.generations.live(answer).text))
    await person.call("POST", f"/conversations/{conversation}/messages/{answer}/stop", status=202)
    stopped = (await person.events(conversation, answer))[-1][1]["message"]
    assert (stopped["state"], stopped["text"], stopped["usage"]["completion_tokens"]) == ("stopped", "Hello ", 1)
    assert scene.engine.closed == 1
    await person.call("POST", f"/conversations/{conversation}/messages/{answer}/stop", status=202)
    assert (await person.tree(conversation))["messages"][-1]["state"] == "stopped"


async def test_an_answer_is_written_without_a_reader(scene: Scene) -> None:
    person = await scene.person()
    conversation = await person.conversation()
    asked = await person.ask(conversation)
    await eventually(lambda: scene.chats.history.messages[asked["answer"]["id"]][1].state == "done")
    listed = (await person.call("GET", "/conversations"))["conversations"][0]
    assert (listed["running"], listed["model"]) == (False, MODEL)


async def test_a_reader_resumes_at_its_last_event(scene: Scene) -> None:
    scene.engine.words = ["żółw ", "🐢 ", "end"]
    person = await scene.person()
    conversation = await person.conversation()
    asked = await person.ask(conversation)
    answer = asked["answer"]["id"]
    events = await person.events(conversation, answer)
    assert text_of(events) == "żółw 🐢 end"
    assert await person.events(conversation, answer, "0.10") == [("done", events[-1][1], "")]
    late = await person.events(conversation, answer, "0.7")
    assert late[0] == ("text", {"at": 8, "text": "end"}, "0.10")  # in UTF-16 code units
    for other in ("7.2", "0.999", "x"):
        whole = await person.events(conversation, answer, other)
        assert whole[0] == ("text", {"at": 0, "text": "żółw 🐢 end"}, "0.10")


async def test_lists_have_pinned_conversations_first_and_then_the_newest(scene: Scene) -> None:
    person = await scene.person()
    ids = [await person.conversation() for _ in range(5)]
    for number, each in enumerate(ids):
        await person.call("PATCH", f"/conversations/{each}", {"title": f"No. {number}"})
        await person.answered(each)
    await person.call("PATCH", f"/conversations/{ids[1]}", {"pinned": True})
    await person.call("PATCH", f"/conversations/{ids[4]}", {"archived": True})
    seen: list[Any] = []
    cursor = ""
    while True:
        page = await person.call("GET", f"/conversations?limit=2{cursor}")
        assert page["total"] is None
        seen += page["conversations"]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert [each["title"] for each in seen] == ["No. 1", "No. 3", "No. 2", "No. 0"]
    archived = await person.call("GET", "/conversations?archived=true")
    assert [each["title"] for each in archived["conversations"]] == ["No. 4"]


async def test_conversations_are_found_by_their_messages(scene: Scene) -> None:
    person = await scene.person()
    ships, birds = await person.conversation(), await person.conversation()
    scene.engine.words = ["Zażółć gęślą jaźń, said the ship."]
    await person.answered(ships, "What about SHIPS?")
    scene.engine.words = ["The Ostrich can't fly."]
    await person.answered(birds, "What about birds?")

    async def found(query: str) -> list[Any]:
        return list((await person.call("GET", f"/conversations?q={query}"))["conversations"])

    assert [each["id"] for each in await found("zazolc gesla")] == [ships]
    assert [each["id"] for each in await found("ostr")] == [birds]
    assert [each["id"] for each in await found("What about")] == [birds, ships]
    assert [each["match"] for each in await found("jaz")] == ["Zażółć gęślą jaźń, said the ship."]
    assert await found("ostr fly") == []  # only the last word may be a prefix
    assert await found("...") == []
    assert await found("$where {'$gt': ''} .*") == []


async def test_a_share_link_shows_the_selected_branch_until_it_is_revoked(scene: Scene) -> None:
    person = await scene.person()
    conversation = await person.conversation(system="The secret.")
    first = await person.answered(conversation, "One")
    await person.answered(conversation, "Another beginning")
    await person.call("PATCH", f"/conversations/{conversation}", {"leaf": first["id"], "title": "Shown"})
    path = f"/conversations/{conversation}/share"
    old = (await person.call("POST", path, status=201))["token"]
    token = (await person.call("POST", path, status=201))["token"]
    assert token not in str(scene.chats.history.shares)
    stranger = await scene.person(name="stranger", organisation="org-other")
    stranger.browser.client.cookies.clear()
    await stranger.call("GET", f"/shared/{old}", status=404)
    shown = await stranger.call("GET", f"/shared/{token}")
    assert (shown["title"], [each["text"] for each in shown["messages"]]) == ("Shown", ["One", "Hello you."])
    assert "secret" not in str(shown)
    assert shown["messages"][1]["cost_nano"] is None
    assert (await person.call("GET", "/conversations"))["conversations"][0]["shared"]
    await person.call("DELETE", path, status=204)
    await stranger.call("GET", f"/shared/{token}", status=404)
    await stranger.call("GET", "/shared/x", status=404)


async def test_deleting_stops_running_answers_and_leaves_nothing(scene: Scene) -> None:
    scene.engine.patient = True
    person = await scene.person()
    conversation = await person.conversation()
    asked = await person.ask(conversation)
    token = (await person.call("POST", f"/conversations/{conversation}/share", status=201))["token"]
    await eventually(lambda: bool(scene.engine.asked))
    await person.call("DELETE", f"/conversations/{conversation}", status=204)
    await eventually(lambda: scene.engine.closed == 1)
    for path in (f"/conversations/{conversation}", f"/shared/{token}"):
        await person.call("GET", path, status=404)
    history = scene.chats.history
    assert not history.messages
    assert not history.terms
    assert not history.shares
    assert asked


async def test_viewers_can_not_ask(scene: Scene) -> None:
    viewer = await scene.person(Role.VIEWER)
    conversation = await viewer.conversation()
    body = {"text": "Hi"}
    refused = await viewer.call("POST", f"/conversations/{conversation}/messages", body, status=403)
    assert refused["error"]["code"] == "not_permitted"
    assert scene.engine.asked == []


async def test_invalid_questions_are_refused(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    person = await scene.person()
    conversation = await person.conversation()
    asked = await person.ask(conversation)
    await person.events(conversation, asked["answer"]["id"])
    path = f"/conversations/{conversation}/messages"
    large = [{"name": "x", "text": "x" * (MAX_ATTACHMENT_BYTES + 1)}]
    for body, param in (
        ({"text": ""}, "text"),
        ({"text": "x" * (MAX_QUESTION_CHARS + 1)}, "text"),
        ({"text": 7}, "text"),
        ({"text": "Hi", "parent": asked["question"]["id"]}, "parent"),
        ({"text": "Hi", "settings": {"model": ""}}, "settings"),
        ({"text": "Hi", "settings": {"model": MODEL, "temperature": 2.5}}, "settings.temperature"),
        ({"text": "Hi", "settings": {"model": MODEL, "max_tokens": 0}}, "settings.max_tokens"),
        ({"text": "Hi", "attachments": large}, "attachments"),
        ({"text": "Hi", "attachments": [{"name": "", "text": ""}]}, "attachments.0.name"),
        ({"text": "Hi", "attachments": [{"name": "x", "text": ""}] * 11}, "attachments"),
    ):
        assert (await person.call("POST", path, body, status=400))["error"]["param"] == param
    await person.call("POST", path, {"text": "Hi", "parent": "msg-none"}, status=404)
    await person.call("PATCH", f"/conversations/{conversation}", {"leaf": "msg-none"}, status=400)
    await person.call("PATCH", f"/conversations/{conversation}", {"title": ""}, status=400)
    await person.call("GET", "/conversations?limit=0", status=400)
    await person.call("GET", "/conversations?nonsense=1", status=400)
    scene.engine.patient = True
    running = await person.ask(conversation)
    body = {"text": "Too soon", "parent": running["answer"]["id"]}
    assert (await person.call("POST", path, body, status=409))["error"]["code"] == "answer_running"
    monkeypatch.setattr("chat_ui.conversations.MAX_MESSAGES", 5)
    assert (await person.call("POST", path, {"text": "Hi"}, status=409))["error"]["code"] == "full"
    assert MAX_MESSAGES > 5


async def test_presets(scene: Scene) -> None:
    person = await scene.person()
    body = {"name": "Short", "settings": {**SETTINGS, "max_tokens": 50}}
    made = await person.call("POST", "/presets", body, status=201)
    await person.call("POST", "/presets", {"name": "A", "settings": SETTINGS}, status=201)
    path = f"/presets/{made['id']}"
    assert (await person.call("PATCH", path, {"name": "Brief"}))["settings"]["max_tokens"] == 50
    assert (await person.call("PATCH", path, {}))["name"] == "Brief"
    assert [each["name"] for each in (await person.call("GET", "/presets"))["presets"]] == ["A", "Brief"]
    await person.call("DELETE", path, status=204)
    await person.call("DELETE", path, status=404)
    await person.call("PATCH", path, {"name": "x"}, status=404)


async def test_models_have_prices_and_readiness(scene: Scene) -> None:
    person = await scene.person()
    listed = await person.call("GET", "/models")
    price = {"input_nano": 3, "cached_input_nano": 2, "output_nano": 6}
    described = {"id": MODEL, "context": 128, "price": price, "ready": True, "tools": []}
    assert listed["models"] == [described | {"reads_images": False, "searches": False}]
    judge = {"id": "judge", "price": {"input_nano": 1, "cached_input_nano": 1, "output_nano": 0}, "ready": True}
    judge["own_names"] = []
    assert listed["search"] == {"verifiers": [judge], "max_tokens": 1000, "answer_tokens": 64}
