"""Conversations of projects: contexts of any length, limits, and erasure while items are added."""

from __future__ import annotations

from typing import Any

import pytest

from stored_objects.conversations import conversations as module
from stored_objects.conversations.conversations import Conversations
from stored_objects.errors import ContextTooLarge, DocumentNotFound
from stored_objects.project_documents.project_documents import DAY, ProjectDocuments, Retention
from stored_objects.project_documents.records import ProjectOwner
from tests.fakes.byte_counts import document_quota
from tests.fakes.project_documents import DictDocumentStore
from tests.stored_objects.conftest import Clock

OWNER, OTHER = ProjectOwner("org-1", "proj-1"), ProjectOwner("org-1", "proj-2")


def items(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": f"msg_{number}", "type": "message", "text": f"{number}"} for number in numbers]


@pytest.fixture
def store() -> DictDocumentStore:
    return DictDocumentStore()


@pytest.fixture
def conversations(store: DictDocumentStore, clock: Clock) -> Conversations:
    return Conversations(ProjectDocuments(store, Retention(30), document_quota(), clock=clock))


async def test_all_items_are_the_context_in_order(
    conversations: Conversations, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    created = await conversations.create(OWNER, {"a": "b"}, items(9, 1))
    for numbers in ((5, 4), (7,)):
        clock.now += 1
        await conversations.append(created, items(*numbers))
    assert await conversations.items(await conversations.find(OWNER, created.id)) == items(9, 1, 5, 4, 7)


async def test_a_context_has_limits(conversations: Conversations, monkeypatch: pytest.MonkeyPatch) -> None:
    created = await conversations.create(OWNER, {}, items(1, 2, 3))
    monkeypatch.setattr(module, "MAX_CONTEXT_BYTES", 10)
    with pytest.raises(ContextTooLarge, match="bytes"):
        await conversations.items(created)
    monkeypatch.setattr(module, "MAX_ITEMS", 2)
    with pytest.raises(ContextTooLarge, match="items"):
        await conversations.items(created)


async def test_a_conversation_lives_as_long_as_it_is_used(conversations: Conversations, clock: Clock) -> None:
    created = await conversations.create(OWNER, {}, items(1))
    for number in (2, 3, 4):
        clock.now += 29 * DAY
        await conversations.append(await conversations.find(OWNER, created.id), items(number))
    assert len(await conversations.items(created)) == 4
    clock.now += 30 * DAY
    with pytest.raises(DocumentNotFound):
        await conversations.find(OWNER, created.id)
    assert await conversations.documents.delete_expired(100) == 5


async def test_nothing_is_left_of_a_conversation_that_is_deleted_while_items_are_added(
    conversations: Conversations, store: DictDocumentStore
) -> None:
    created = await conversations.create(OWNER, {}, items(1))
    await conversations.documents.delete(OWNER, created.id)
    with pytest.raises(DocumentNotFound):
        await conversations.append(created, items(2))
    assert store.records == {}


async def test_an_item_belongs_to_its_conversation(conversations: Conversations) -> None:
    first = await conversations.create(OWNER, {}, items(1, 2))
    second = await conversations.create(OWNER, {}, items(3))
    assert await conversations.find_item(OWNER, first.id, "msg_1") == items(1)[0]
    for owner, id, item_id in ((OWNER, second.id, "msg_1"), (OTHER, first.id, "msg_1"), (OWNER, "", first.id)):
        if id:
            with pytest.raises(DocumentNotFound):
                await conversations.find_item(owner, id, item_id)
            with pytest.raises(DocumentNotFound):
                await conversations.delete_item(owner, id, item_id)
    with pytest.raises(DocumentNotFound):
        await conversations.find(OWNER, "msg_1")
    await conversations.delete_item(OWNER, first.id, "msg_1")
    assert await conversations.items(first) == items(2)
