"""Images of answers are kept as long as their conversation, and only those of its owner."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from auth_billing.errors import StoreUnavailable
from chat_ui.conversations import Conversations, Question
from chat_ui.history.conversation_images import image_ids
from chat_ui.history.records import ModelSettings, Owner
from chat_ui.history.steps import Step, StepState
from stored_objects.blobs.blobs import new_blob_id
from stored_objects.objects.records import ObjectKind, ObjectOwner, StoredObject
from tests.chat_ui.chat_clients import eventually
from tests.fakes.chat import ChatHouse
from tests.fakes.scripted_engine import MODEL, ScriptedEngine
from tests.fakes.stored_objects import DictObjectStore

ADA, EVE = Owner("org-acme", "user-ada"), Owner("org-acme", "user-eve")


def step(*images: Any, state: StepState = StepState.DONE) -> Step:
    return Step(0, "tool", "image", state, {"arguments": {}, "result": {"type": "image", "images": list(images)}})


@pytest.fixture
def house() -> ChatHouse:
    return ChatHouse()


@pytest.fixture
async def conversations(house: ChatHouse) -> AsyncIterator[Conversations]:
    generations = house.generations()
    yield house.conversations(generations)
    await generations.close()


async def stored(house: ChatHouse, owner: Owner = ADA) -> StoredObject:
    who = ObjectOwner(owner.organisation, owner.user)
    return await house.objects.put(who, b"\x89PNG", kind=ObjectKind.IMAGE, media_type="image/png")


def references(house: ChatHouse, blob: StoredObject) -> list[str]:
    assert isinstance(house.objects.documents, DictObjectStore)
    return house.objects.documents.records[blob.id].references


async def test_images_of_an_answer_are_kept_until_its_conversation_is_deleted(house: ChatHouse) -> None:
    images = [await stored(house), await stored(house)]
    drawn = step(*({"blob": each.id} for each in images))
    generations = house.generations(ScriptedEngine([replace(drawn, state=StepState.RUNNING), drawn, "Here you are."]))
    conversations = house.conversations(generations)
    conversation = await conversations.create(ADA, ModelSettings(MODEL, max_tokens=50))
    _, answer = await conversations.ask(ADA, "proj", conversation.id, Question(None, "Draw a cat"), None)
    await eventually(lambda: not house.history.messages[answer.id][1].state.is_open)
    assert [references(house, each) for each in images] == [[conversation.id], [conversation.id]]
    await conversations.remove(ADA, conversation.id)
    assert [references(house, each) for each in images] == [[], []]
    await generations.close()


async def test_images_of_others_are_not_kept(house: ChatHouse, conversations: Conversations) -> None:
    conversation = await conversations.create(ADA, ModelSettings(MODEL))
    foreign, own = await stored(house, EVE), await stored(house)
    images = step({"blob": foreign.id}, {"blob": new_blob_id()}, {"blob": "../x"}, {"blob": own.id})
    await house.images().keep(ADA, conversation.id, images)
    assert (references(house, foreign), references(house, own)) == ([], [conversation.id])


async def test_nothing_is_kept_for_a_conversation_that_was_deleted_meanwhile(
    house: ChatHouse, conversations: Conversations
) -> None:
    conversation, image = await conversations.create(ADA, ModelSettings(MODEL)), await stored(house)
    await conversations.remove(ADA, conversation.id)
    await house.images().keep(ADA, conversation.id, step({"blob": image.id}))
    assert references(house, image) == []


async def test_an_answer_goes_on_when_its_images_cannot_be_kept(
    house: ChatHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> bool:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(DictObjectStore, "add_reference", fail)
    await house.images().keep(ADA, "conv-1", step({"blob": new_blob_id()}))


@pytest.mark.parametrize(
    "wrong",
    [
        step({"blob": "blob_x"}, state=StepState.RUNNING),
        Step(0, "tool", "weather", StepState.DONE, {"result": {"type": "weather", "images": [{"blob": "blob_x"}]}}),
        Step(0, "tool", "image", StepState.DONE, {"result": {"type": "image", "images": "blob_x"}}),
        Step(0, "tool", "image", StepState.DONE, {"result": ["image"]}),
        step("blob_x", {"blob": 1}, {}),
    ],
)
def test_other_data_has_no_images(wrong: Step) -> None:
    assert image_ids(wrong) == []
