"""Contract tests of the chat's stores, run on the in-memory and the MongoDB implementation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from auth_billing.store.connection import StoreConnection
from chat_ui.history.limits import MAX_TERMS
from chat_ui.history.presets import Preset
from chat_ui.history.records import (
    AnswerError,
    AttachedImage,
    Attachment,
    Conversation,
    Message,
    ModelSettings,
    Owner,
    PageQuery,
    Progress,
    QueueStatus,
    Role,
    State,
    TokenUsage,
)
from chat_ui.history.steps import Step, StepState
from chat_ui.history.storage import ByteCount
from chat_ui.importing.records import Import, ImportState, Skipped, SkipReason
from chat_ui.store.conversations import MongoConversationStore
from chat_ui.store.imports import COLLECTION, MongoImportStore
from chat_ui.store.indexes import create_indexes
from chat_ui.store.messages import MongoAnswerStore, MongoMessageStore
from chat_ui.store.presets import MongoPresetStore
from chat_ui.store.shares import MongoShareStore
from chat_ui.store.stored_bytes import MongoStoredBytes
from tests.fakes.history import (
    DictAnswerStore,
    DictConversationStore,
    DictHistory,
    DictImportStore,
    DictMessageStore,
    DictPresetStore,
    DictShareStore,
    DictStoredBytes,
)

SKIPPED = Skipped("a", SkipReason.TOO_MANY_MESSAGES, 2_000)
ADA, EVE, ELSEWHERE = Owner("org", "ada"), Owner("org", "eve"), Owner("other", "ada")
SETTINGS = ModelSettings("m", "Be kind.", 0.5, None, 1.1, 7, ("weather",))


@dataclass
class Stores:
    conversations: Any
    messages: Any
    answers: Any
    presets: Any
    shares: Any
    imports: Any
    stored_bytes: Any


@pytest.fixture(params=["dictionaries", pytest.param("mongodb", marks=pytest.mark.store)])
async def stores(request: pytest.FixtureRequest) -> AsyncIterator[Stores]:
    if request.param == "dictionaries":
        history = DictHistory()
        yield Stores(*(kind(history) for kind in _TWINS))
        return
    connection = StoreConnection(request.getfixturevalue("database_url"), operation_ms=20_000)
    await create_indexes(connection)
    yield Stores(*(kind(connection) for kind in _REAL))
    connection.close()


_TWINS = (
    DictConversationStore,
    DictMessageStore,
    DictAnswerStore,
    DictPresetStore,
    DictShareStore,
    DictImportStore,
    DictStoredBytes,
)
_REAL = (
    MongoConversationStore,
    MongoMessageStore,
    MongoAnswerStore,
    MongoPresetStore,
    MongoShareStore,
    MongoImportStore,
    MongoStoredBytes,
)


def conversation(name: str, updated: float = 100.0, **more: Any) -> Conversation:
    return Conversation(f"conv-{name}", name, 1.0, updated, SETTINGS, **more)


def answer(name: str = "a", **more: Any) -> Message:
    state = more.pop("state", State.WAITING)
    return Message(f"msg-{name}", "conv-x", "msg-q", Role.ASSISTANT, "", 2.0, (), state, SETTINGS, "proj", **more)


QUESTION = Message("msg-q", "conv-x", None, Role.USER, "Hi żółw", 1.0, [Attachment("a.txt", "text", 4)])
QUESTION = replace(QUESTION, images=[AttachedImage("blob_a", "a.png", 9, 12)])


async def test_lists_are_sorted_and_paged(stores: Stores) -> None:
    filed = {conversation(str(number), 100.0 + number): () for number in range(5)}
    await stores.conversations.add_missing(ADA, {**filed, conversation("pin", 1.0, pinned=True): ()})
    await stores.conversations.add_missing(EVE, {conversation("eve"): ()})
    first = await stores.conversations.page(ADA, PageQuery(False, 3))
    assert [each.title for each in first] == ["pin", "4", "3"]
    rest = await stores.conversations.page(ADA, PageQuery(False, 10, first[-1].order))
    assert [each.title for each in rest] == ["2", "1", "0"]
    assert await stores.conversations.count(ADA) == 6
    assert await stores.conversations.page(ELSEWHERE, PageQuery(False, 3)) == []
    assert first[0].settings == SETTINGS


async def test_lists_reach_back_over_years(stores: Stores) -> None:
    days = [0, 0.5, 3, 40, 41, 5_000]
    now = time.time()
    filed = {conversation(str(day), max(1.0, now - 86_400 * day), pinned=day == 40): () for day in days}
    await stores.conversations.add_missing(ADA, filed)
    listed: list[Conversation] = []
    while more := await stores.conversations.page(ADA, PageQuery(False, 2, listed[-1].order if listed else None)):
        listed += more
    assert [each.title for each in listed] == ["40", "0", "0.5", "3", "41", "5000"]
    for odd in ("0", "1", "x", "0²³", "\uffff"):
        await stores.conversations.page(ADA, PageQuery(False, 2, odd))


async def test_adding_existing_records_changes_nothing(stores: Stores) -> None:
    many = {conversation(str(number)): ["word"] for number in range(7)}
    messages = [replace(QUESTION, id=f"msg-{number}") for number in range(450)]
    await stores.conversations.add_missing(ADA, dict(list(many.items())[:3]))
    await stores.conversations.change(ADA, "conv-1", {"title": "mine"})
    await stores.conversations.add_missing(ADA, many)
    await stores.messages.add_missing(ADA, messages[200:300])
    await stores.messages.add_missing(ADA, messages)
    assert await stores.conversations.count(ADA) == 7
    assert (await stores.conversations.find(ADA, "conv-1")).title == "mine"
    assert len(await stores.messages.all(ADA, "conv-x")) == 450
    found = await stores.conversations.search(ADA, ["word"], archived=False)
    assert [each.order for each in found] == sorted((each.order for each in many), reverse=True)


async def test_messages_of_conversations_are_removed(stores: Stores) -> None:
    await stores.messages.add_missing(ADA, [QUESTION, replace(QUESTION, id="msg-r", conversation="conv-y")])
    await stores.messages.remove_all(EVE, ["conv-x"])
    await stores.messages.remove_all(ADA, ["conv-x", "conv-none"])
    assert await stores.messages.all(ADA, "conv-x") == []
    assert len(await stores.messages.all(ADA, "conv-y")) == 1


async def test_a_person_has_one_import_at_a_time(stores: Stores) -> None:
    first = Import("import-1", 1.0, 3, until=10.0)
    assert await stores.imports.find(ADA) is None
    assert await stores.imports.begin(ADA, first, None, 5.0)
    assert not await stores.imports.begin(ADA, replace(first, id="import-2"), None, 5.0)
    assert not await stores.imports.begin(ADA, replace(first, id="import-2"), first, 5.0)
    assert await stores.imports.begin(EVE, replace(first, id="import-3"), None, 5.0)
    at = replace(first, done=2, imported=1, known=1, skipped=[SKIPPED], writing=["conv-x"], until=20.0)
    assert await stores.imports.renew(ADA, at)
    assert await stores.imports.find(ADA) == at
    ((owner, left),) = await stores.imports.abandoned(20.0, 5)
    assert (owner, left.id, left.until) == (EVE, "import-3", 10.0)
    assert sorted(owner.user for owner, _ in await stores.imports.abandoned(21.0, 5)) == ["ada", "eve"]
    assert await stores.imports.begin(ADA, replace(first, id="import-2", until=30.0), at, 21.0)
    assert not await stores.imports.renew(ADA, at)
    assert await stores.imports.renew(ADA, replace(at, id="import-2", state=ImportState.DONE, until=0.0))
    assert [owner.user for owner, _ in await stores.imports.abandoned(1e9, 5)] == ["eve"]
    assert (await stores.imports.find(ADA)).state is ImportState.DONE


@pytest.mark.store
async def test_unknown_skip_reasons_of_other_versions_are_read(database_url: str) -> None:
    connection = StoreConnection(database_url, operation_ms=20_000)
    imports = MongoImportStore(connection)
    await imports.begin(ADA, Import("import-1", 1.0, 2, skipped=[SKIPPED]), None, 5.0)
    words = {"title": "b", "reason": "There is no text in it."}
    await connection.unjournaled(COLLECTION).update_one({}, {"$push": {"skipped": words}})
    found = await imports.find(ADA)
    connection.close()
    assert found is not None
    assert found.skipped == [SKIPPED, Skipped("b", SkipReason.OTHER)]


async def test_a_change_moves_the_conversation_and_needs_its_owner(stores: Stores) -> None:
    await stores.conversations.add_missing(ADA, {conversation("x"): (), conversation("y", 200.0): ()})
    changed = await stores.conversations.change(ADA, "conv-x", {"updated": 300.0, "leaf": "msg"}, {"size": 5})
    assert (changed.updated, changed.leaf, changed.size, changed.title) == (300.0, "msg", 5, "x")
    await stores.conversations.change(ADA, "conv-x", {"settings": ModelSettings("n")}, {"size": 5, "messages": 2})
    found = await stores.conversations.find(ADA, "conv-x")
    assert (found.settings.model, found.size, found.messages) == ("n", 10, 2)
    assert [each.title for each in await stores.conversations.page(ADA, PageQuery(False, 9))] == ["x", "y"]
    await stores.conversations.change(ADA, "conv-x", {"archived": True})
    assert [each.title for each in await stores.conversations.page(ADA, PageQuery(True, 9))] == ["x"]
    for owner in (EVE, ELSEWHERE):
        assert await stores.conversations.change(owner, "conv-x", {"title": "mine"}) is None
        assert await stores.conversations.find(owner, "conv-x") is None
        assert not await stores.conversations.set_initial_title(owner, "conv-x", "mine")
        assert not await stores.conversations.remove(owner, "conv-x")
    assert (await stores.conversations.find(ADA, "conv-x")).title == "x"


async def test_an_initial_title_is_set_once(stores: Stores) -> None:
    await stores.conversations.add_missing(ADA, {replace(conversation("x"), title=""): ()})
    assert await stores.conversations.set_initial_title(ADA, "conv-x", "One")
    assert not await stores.conversations.set_initial_title(ADA, "conv-x", "Two")


async def test_search_needs_all_words_and_a_prefix_of_the_last(stores: Stores) -> None:
    await stores.conversations.add_missing(
        ADA, {conversation("x"): ["zolw", "plynie"], conversation("y"): ["zolwik"], conversation("z"): ()}
    )
    await stores.conversations.add_missing(EVE, {conversation("eve"): ["zolw"]})
    await stores.conversations.add_terms(ADA, "conv-z", ["statek", "zolw"])
    await stores.conversations.add_terms(EVE, "conv-x", ["stolen"])

    async def found(*words: str) -> set[str]:
        ids = [each.id for each in await stores.conversations.search(ADA, words, archived=False)]
        return {each.title for each in await stores.conversations.find_many(ADA, ids)}

    assert await found("zol") == {"x", "y", "z"}
    assert await found("zolw", "ply") == {"x"}
    assert await found("zol", "ply") == set()
    assert await found("statek", "zolw") == {"z"}
    assert await found("stolen") == set()
    await stores.conversations.add_terms(ADA, "conv-z", [f"t{number}" for number in range(MAX_TERMS)])
    assert await found(f"t{MAX_TERMS - 3}") == {"z"}
    assert await found(f"t{MAX_TERMS - 1}") == set()


async def test_messages_are_read_in_order_by_their_owner(stores: Stores) -> None:
    await stores.messages.add(ADA, [answer(), QUESTION], "me", 10.0)
    assert [each.id for each in await stores.messages.all(ADA, "conv-x")] == ["msg-q", "msg-a"]
    found = await stores.messages.find(ADA, "conv-x", "msg-q")
    assert (found.attachments[0].name, found.attachments[0].text, found.attachments[0].size) == ("a.txt", "", 4)
    whole = await stores.messages.find_many(ADA, "conv-x", ["msg-q", "msg-none"])
    assert [each.attachments[0].text for each in whole] == ["text"]
    whole = await stores.messages.all_with_files(ADA, ["conv-x", "conv-y"])
    assert sorted((each.id, [file.text for file in each.attachments]) for each in whole) == [
        ("msg-a", []),
        ("msg-q", ["text"]),
    ]
    assert await stores.messages.with_open_answers(ADA, ["conv-x", "conv-y"]) == {"conv-x"}
    assert await stores.messages.matching_texts(ADA, ["conv-x"], "[zż][oó][lł]") == [("conv-x", "Hi żółw")]
    assert await stores.messages.find(ADA, "conv-y", "msg-q") is None
    for owner in (EVE, ELSEWHERE):
        assert await stores.messages.all(owner, "conv-x") == []
        assert await stores.messages.all_with_files(owner, ["conv-x"]) == []
        assert await stores.messages.find_many(owner, "conv-x", ["msg-q"]) == []
        assert await stores.messages.find(owner, "conv-x", "msg-q") is None
        assert await stores.messages.with_open_answers(owner, ["conv-x"]) == set()
        assert await stores.messages.matching_texts(owner, ["conv-x"], "H") == []
        assert await stores.messages.request_stop(owner, "conv-x", "msg-a") is None
    assert await stores.answers.renew("msg-a", "me", 11.0, Progress(waiting=QueueStatus(3, 4.5))) is False
    assert await stores.answers.renew("msg-a", "me", 11.0, Progress()) is False
    assert (await stores.messages.find(ADA, "conv-x", "msg-a")).waiting == QueueStatus(3, 4.5)


async def test_steps_are_stored_with_any_json(stores: Stores) -> None:
    data = {"result": {"$set.a": [1.5, None, True, 2**60, "\ud800"], "": {"\0": "żółw"}}}
    running = Step(1, "tool", "weather", StepState.RUNNING)
    await stores.messages.add(ADA, [QUESTION, answer()], "writer", time.time() + 100)
    assert await stores.answers.renew("msg-a", "writer", 1.0, Progress(steps=[running])) is False
    assert (await stores.messages.find(ADA, "conv-x", "msg-a")).steps == [running]
    done = replace(running, state=StepState.DONE, data=data)
    assert await stores.answers.finish(answer(state=State.DONE, steps=[done]), "writer")
    assert (await stores.messages.find(ADA, "conv-x", "msg-a")).steps == [done]


async def test_an_answer_is_leased_to_one_writer(stores: Stores) -> None:
    await stores.messages.add(ADA, [answer()], "first", 10.0)
    assert await stores.answers.abandoned(9.0, 5) == []
    assert await stores.answers.claim("msg-a", "second", 20.0, 9.0) is None
    assert await stores.answers.abandoned(11.0, 5) == ["msg-a"]
    claim = await stores.answers.claim("msg-a", "second", 20.0, 11.0)
    assert (claim.owner, claim.message.settings, claim.message.project) == (ADA, SETTINGS, "proj")
    assert await stores.answers.claim("msg-a", "third", 20.0, 11.0) is None
    told = Progress("Half", State.RUNNING, 1, TokenUsage(1, 0, 2), 33, 0.5)
    assert await stores.answers.renew("msg-a", "first", 30.0, told) is None
    assert await stores.answers.renew("msg-a", "second", 30.0, told) is False
    assert await stores.answers.renew("msg-a", "second", 30.0, Progress()) is False
    found = await stores.messages.find(ADA, "conv-x", "msg-a")
    assert (found.text, found.state, found.attempt, found.usage, found.cost) == (
        "Half",
        State.RUNNING,
        1,
        TokenUsage(1, 0, 2),
        33,
    )
    await stores.answers.release("msg-a", "first")
    assert await stores.answers.abandoned(29.0, 5) == []
    await stores.answers.release("msg-a", "second")
    assert await stores.answers.abandoned(29.0, 5) == ["msg-a"]


async def test_a_stop_request_reaches_the_writer_and_the_end_is_stored_once(stores: Stores) -> None:
    await stores.messages.add(ADA, [answer()], "me", 10.0)
    assert (await stores.messages.request_stop(ADA, "conv-x", "msg-a")).id == "msg-a"
    assert await stores.answers.renew("msg-a", "me", 11.0, Progress(waiting=QueueStatus(3, None))) is True
    ended = answer(state=State.FAILED, error=AnswerError("busy", "Busy.", 3), finish_reason="stop", cost=5)
    assert not await stores.answers.finish(ended, "another")
    assert await stores.answers.finish(ended, "me")
    assert not await stores.answers.finish(ended, "me")
    found = await stores.messages.find(ADA, "conv-x", "msg-a")
    assert (found.state, found.error, found.cost) == (State.FAILED, AnswerError("busy", "Busy.", 3), 5)
    assert found.waiting is None
    assert await stores.messages.with_open_answers(ADA, ["conv-x"]) == set()
    assert await stores.answers.renew("msg-a", "me", 12.0, Progress()) is None
    assert await stores.answers.abandoned(1e12, 5) == []
    assert (await stores.messages.request_stop(ADA, "conv-x", "msg-a")).state is State.FAILED


async def test_deleting_a_conversation_deletes_its_messages(stores: Stores) -> None:
    await stores.conversations.add_missing(ADA, {conversation("x"): ["hi"]})
    await stores.messages.add(ADA, [QUESTION, answer()], "me", 10.0)
    await stores.shares.put(ADA, "conv-x", b"d" * 32, 1.5)
    assert await stores.conversations.remove(ADA, "conv-x")
    assert await stores.messages.all(ADA, "conv-x") == []
    assert await stores.shares.find(b"d" * 32) is None
    assert await stores.conversations.search(ADA, ["hi"], archived=False) == []
    assert await stores.answers.renew("msg-a", "me", 11.0, Progress()) is None
    assert not await stores.conversations.remove(ADA, "conv-x")


async def test_a_conversation_has_one_link(stores: Stores) -> None:
    await stores.shares.put(ADA, "conv-x", b"1" * 32, 1.5)
    await stores.shares.put(ADA, "conv-x", b"2" * 32, 2.5)
    assert await stores.shares.find(b"1" * 32) is None
    assert await stores.shares.find(b"2" * 32) == (ADA, "conv-x", 2.5)
    await stores.shares.remove(EVE, "conv-x")
    assert await stores.shares.find(b"2" * 32) is not None
    await stores.shares.remove(ADA, "conv-x")
    assert await stores.shares.find(b"2" * 32) is None


async def test_presets_are_found_by_their_owner_only(stores: Stores) -> None:
    for name in ("b", "a"):
        await stores.presets.add(ADA, Preset(f"preset-{name}", name, SETTINGS))
    changed = await stores.presets.change(ADA, "preset-b", {"settings": ModelSettings("n")})
    assert (changed.name, changed.settings.model) == ("b", "n")
    assert [each.name for each in await stores.presets.all(ADA)] == ["a", "b"]
    for owner in (EVE, ELSEWHERE):
        assert await stores.presets.all(owner) == []
        assert await stores.presets.change(owner, "preset-a", {"name": "mine"}) is None
        assert not await stores.presets.remove(owner, "preset-a")
    assert await stores.presets.remove(ADA, "preset-a")


async def test_stored_bytes_hold_a_limit_under_concurrency(stores: Stores) -> None:
    counts = stores.stored_bytes
    assert await counts.find(ADA) is None
    assert not await counts.add(ADA, 1, 5.0, 100)
    await asyncio.gather(*(counts.begin(ADA, ByteCount(10, 4.0)) for _ in range(4)))
    added = await asyncio.gather(*(counts.add(ADA, 20, 5.0, 100) for _ in range(10)))
    assert (sum(added), await counts.find(ADA)) == (4, ByteCount(90, 5.0))
    assert await counts.add(ADA, -50, 6.0)
    assert await counts.add(ADA, 2**40, 7.5)
    found = await counts.find(ADA)
    assert found == ByteCount(40 + 2**40, 7.5)
    for other in (ByteCount(90, 7.5), ByteCount(40 + 2**40, 6.0)):
        assert not await counts.correct(ADA, other, ByteCount(7, 8.0))
    assert await counts.correct(ADA, found, ByteCount(7, 8.0))
    assert (await counts.find(ADA), await counts.find(EVE), await counts.find(ELSEWHERE)) == (
        ByteCount(7, 8.0),
        None,
        None,
    )


async def test_sizes_of_a_persons_conversations_are_summed(stores: Stores) -> None:
    assert await stores.conversations.stored_bytes(ADA) == 0
    for number, owner in enumerate((ADA, ADA, EVE, ELSEWHERE)):
        await stores.conversations.add(owner, Conversation(f"c{number}", "", 1.0, 1.0, SETTINGS, size=10 + number))
    await stores.conversations.change(ADA, "c0", {}, {"size": 2**33})
    assert await stores.conversations.stored_bytes(ADA) == 21 + 2**33
