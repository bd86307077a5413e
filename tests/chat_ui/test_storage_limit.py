"""A person's stored bytes are limited: by questions, system prompts, answers and imports, over two gateways."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest

from chat_ui.history.storage import QUIET_TIME, ByteCount, whole_bytes
from tests.chat_ui.browser_client import HTTPS, Browser
from tests.chat_ui.chat_clients import Person, Scene, eventually
from tests.chat_ui.test_importing import conversation, exported
from tests.fakes.history import DictHistory

MIB = 2**20


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene(storage_bytes=MIB)
    yield scene
    await scene.close()


async def stored(person: Person) -> int:
    storage = (await person.call("GET", "/usage"))["storage"]
    assert storage["limit_bytes"] == MIB
    return int(storage["used_bytes"])


async def fill(person: Person, characters: int = 900_000) -> str:
    """Store a conversation with this much text; return its id."""
    chat = await person.conversation()
    file = {"name": "a.txt", "text": "x" * characters}
    await person.answered(chat, attachments=[file])
    return chat


async def test_questions_are_counted_and_refused(scene: Scene) -> None:
    ada, eve = await scene.person(name="ada"), await scene.person(name="eve")
    chat = await fill(ada)
    assert 900_000 < await stored(ada) < 910_000
    refused = await ada.call(
        "POST", f"/conversations/{chat}/messages", {"parent": None, "text": "x" * 200_000}, status=409
    )
    assert refused["error"]["code"] == "storage_full"
    assert refused["error"]["message"].startswith("You may store 1.0 MiB of conversations and have stored 0.9 MiB; ")
    assert len((await ada.tree(chat))["messages"]) == 2
    assert await stored(eve) == 0
    await fill(eve)


async def test_deleting_a_conversation_frees_its_bytes(scene: Scene) -> None:
    ada = await scene.person()
    chat = await fill(ada)
    await ada.call("DELETE", f"/conversations/{chat}", status=204)
    assert await stored(ada) == 0
    await fill(ada)


async def test_answers_are_counted(scene: Scene) -> None:
    scene.engine.words = ["ż" * 200_000]
    ada = await scene.person()
    chat = await ada.conversation()
    before = await stored(ada)
    await ada.answered(chat)
    assert await stored(ada) > before + 400_000
    again = (await ada.tree(chat))["leaf"]
    ends = []
    for _ in range(2):
        begun = await ada.call("POST", f"/conversations/{chat}/messages/{again}/regenerate", {}, status=202)
        ends.append((await ada.events(chat, begun["answer"]["id"]))[-1][1]["message"])
    assert [each["state"] for each in ends] == ["done", "failed"]
    assert await stored(ada) <= MIB
    await ada.call("DELETE", f"/conversations/{chat}", status=204)
    assert await stored(ada) == 0


async def test_an_answer_that_reaches_the_limit_ends_with_an_error_and_its_text(scene: Scene) -> None:
    ada = await scene.person()
    await fill(ada, 800_000)
    scene.engine.words = ["ż" * 10_000] * 20
    chat = await ada.conversation()
    answer = await ada.answered(chat)
    assert answer["state"] == "failed"
    assert answer["error"]["code"] == "storage_full"
    assert 100_000 < len(answer["text"]) < 130_000
    assert await stored(ada) <= MIB
    await ada.call("DELETE", f"/conversations/{chat}", status=204)
    assert 800_000 < await stored(ada) < 900_000


async def test_answers_at_the_same_time_stay_within_the_limit(scene: Scene) -> None:
    ada = await scene.person()
    chats = [await ada.conversation() for _ in range(6)]
    scene.engine.words = ["ż" * 10_000] * 20
    answers = await asyncio.gather(*(ada.answered(chat) for chat in chats))
    assert {each["state"] for each in answers} == {"done", "failed"}
    assert MIB // 2 < await stored(ada) <= MIB
    assert sum(len(each["text"].encode()) for each in answers) <= MIB


async def test_system_prompts_are_counted(scene: Scene) -> None:
    ada = await scene.person()
    small = await ada.conversation()
    settings = {"settings": {"model": "m", "system": "x" * 32_768}}
    while (created := await ada.browser.send("POST", "/conversations", settings)).status_code == 201:
        assert await stored(ada) <= MIB
    assert created.json()["error"]["code"] == "storage_full"
    refused = await ada.call("PATCH", f"/conversations/{small}", settings, status=409)
    assert refused["error"]["code"] == "storage_full"
    await ada.call("PATCH", f"/conversations/{small}", {"settings": {"model": "m"}})


async def test_concurrent_changes_of_settings_free_nothing_twice(scene: Scene) -> None:
    ada = await scene.person()
    chat = await ada.conversation(system="x" * 32_768)
    before = await stored(ada)
    short = {"settings": {"model": "m"}}
    await asyncio.gather(*(ada.call("PATCH", f"/conversations/{chat}", short) for _ in range(8)))
    assert await stored(ada) == before
    await ada.call("DELETE", f"/conversations/{chat}", status=204)
    assert await stored(ada) == 0


async def test_imports_are_counted_and_skip_what_does_not_fit(scene: Scene) -> None:
    ada = await scene.person()
    large = conversation("large")
    large["chat"]["history"]["messages"]["qlarge"]["content"] = "x" * 900_000
    larger = json.loads(json.dumps(large).replace("large", "larger"))
    outcome = await ada.imported(json.loads(exported(3, large, larger)))
    assert (outcome["state"], outcome["imported"]) == ("done", 4)
    assert [(each["reason"], each["limit"]) for each in outcome["skipped"]] == [("storage_full", 1)]
    assert 900_000 < await stored(ada) < MIB
    outcome = await ada.imported(json.loads(exported(3)))
    assert (outcome["imported"], outcome["known"]) == (0, 3)


async def test_an_import_into_full_storage_is_refused_at_once(scene: Scene) -> None:
    ada = await scene.person()
    await fill(ada, 2**20 - 32_768)
    while (await ada.browser.send("POST", "/conversations", {"settings": {"model": "m"}})).status_code == 201:
        pass
    refused = await ada.call("POST", "/import", json.loads(exported(1)), status=409)
    assert refused["error"]["code"] == "storage_full"


async def test_the_limit_holds_over_two_gateways(scene: Scene) -> None:
    ada = await scene.person()
    other = Person(Browser(scene.gateway(), HTTPS, ada.browser.address))
    other.browser.take(ada.browser.cookies)
    chats = [await ada.conversation() for _ in range(4)]

    async def ask(person: Person, chat: str) -> int:
        file = {"name": "a.txt", "text": "x" * 100_000}
        body = {"parent": None, "text": "Hi", "attachments": [file]}
        return (await person.browser.send("POST", f"/conversations/{chat}/messages", body)).status_code

    statuses = await asyncio.gather(*(ask(person, chat) for chat in chats * 4 for person in (ada, other)))
    assert set(statuses) == {202, 409}
    assert 8 <= statuses.count(202) <= 10  # the blocks of running answers count too
    assert await stored(ada) <= MIB


async def test_a_wrong_count_is_corrected_before_a_person_is_refused(scene: Scene) -> None:
    """A count is wrong after a crash between counting and writing; it may be right if it has just changed."""
    ada = await scene.person()
    await fill(ada, 100_000)
    counts = scene.chats.history.stored_bytes
    [owner] = counts
    exact = counts[owner].total
    counts[owner] = ByteCount(MIB, time.time())
    await ada.call("POST", "/conversations", {"settings": {"model": "m"}}, status=409)
    counts[owner] = ByteCount(MIB, time.time() - QUIET_TIME - 1)
    await ada.conversation()
    assert exact < await stored(ada) < exact + 2048


async def test_conversations_from_before_the_limit_are_counted(scene: Scene) -> None:
    ada = await scene.person()
    await fill(ada)
    before = await stored(ada)
    scene.chats.history.stored_bytes.clear()
    await ada.call("POST", "/import", json.loads(exported(1)), status=202)
    assert await stored(ada) >= before


async def test_counts_are_exact_after_everything(scene: Scene) -> None:
    """The count and the sizes of all conversations agree, and the sizes are those of the stored records."""
    ada = await scene.person()
    chat = await fill(ada, 1000)
    await ada.call("PATCH", f"/conversations/{chat}", {"settings": {"model": "m", "system": "Be kind."}})
    answer = await ada.answered(chat, "And?")
    await ada.call("POST", f"/conversations/{chat}/messages/{answer['id']}/regenerate", {}, status=202)
    await ada.imported(json.loads(exported(2)))
    await ada.call("DELETE", f"/conversations/{await fill(ada, 10)}", status=204)
    history = scene.chats.history
    await eventually(lambda: not history.leases)
    await eventually(lambda: sum(each.size for each in history.conversations.values()) == _recounted(history))
    assert await stored(ada) == _recounted(history)


def _recounted(history: DictHistory) -> int:
    messages = [message for _, message in history.messages.values()]
    return sum(
        whole_bytes(each, [message for message in messages if message.conversation == each.id])
        for each in history.conversations.values()
    )
