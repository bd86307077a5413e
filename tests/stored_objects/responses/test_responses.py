"""Stored responses: the items of contexts and references, their bounds, and what is not found."""

from __future__ import annotations

from typing import Any

import pytest

from stored_objects.errors import ContextTooLarge, DocumentNotFound
from stored_objects.project_documents.project_documents import DAY, ProjectDocuments, Retention
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.responses import responses as module
from stored_objects.responses.responses import StoredResponse, StoredResponses, item_id
from tests.fakes.byte_counts import document_quota
from tests.fakes.project_documents import DictDocumentStore
from tests.stored_objects.conftest import START, Clock

OWNER, OTHER = ProjectOwner("org-1", "project-1"), ProjectOwner("org-1", "project-2")


def response_id(number: int) -> str:
    return f"resp_{number:032x}"


@pytest.fixture
def responses(clock: Clock) -> StoredResponses:
    return StoredResponses(ProjectDocuments(DictDocumentStore(), Retention(2), document_quota(), clock=clock))


async def keep(responses: StoredResponses, number: int, previous: int | None = None) -> None:
    """Keep a response of an input item and an output item, which continues another one."""
    id = response_id(number)
    ids = [item_id("msg", id, 0), item_id("msg", id, 1)]
    response: dict[str, Any] = {"id": id, "output": [{"id": ids[1]}]}
    context = [] if previous is None else await responses.context(OWNER, response_id(previous))
    await responses.keep(OWNER, StoredResponse(response, [{"id": ids[0]}], [each.id for each in context]))


async def test_a_context_is_all_earlier_responses_in_order(responses: StoredResponses) -> None:
    await keep(responses, 1)
    await keep(responses, 2, 1)
    await keep(responses, 3, 2)
    await keep(responses, 4, 2)
    ids = [each.id for each in await responses.context(OWNER, response_id(3))]
    assert ids == [response_id(number) for number in (1, 2, 3)]
    with pytest.raises(DocumentNotFound):
        await responses.context(OTHER, response_id(3))
    await responses.delete(OWNER, response_id(1))
    with pytest.raises(DocumentNotFound):
        await responses.context(OWNER, response_id(4))


async def test_a_context_is_bounded(responses: StoredResponses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EARLIER", 2)
    await keep(responses, 1)
    await keep(responses, 2, 1)
    await keep(responses, 3, 2)
    with pytest.raises(ContextTooLarge):
        await keep(responses, 4, 3)
    monkeypatch.setattr(module, "MAX_EARLIER", 3)
    monkeypatch.setattr(module, "MAX_CONTEXT_BYTES", 10)
    with pytest.raises(ContextTooLarge):
        await keep(responses, 4, 3)


async def test_items_are_found_by_their_ids(responses: StoredResponses) -> None:
    await keep(responses, 1)
    await keep(responses, 2)
    ids = [item_id("msg", response_id(2), 1), item_id("msg", response_id(1), 0)]
    assert await responses.items(OWNER, [*ids, item_id("msg", response_id(3), 0), "x"]) == {
        id: {"id": id} for id in ids
    }
    assert await responses.items(OTHER, ids) == {}


async def test_a_response_is_found_for_the_retention_period(responses: StoredResponses, clock: Clock) -> None:
    await keep(responses, 1)
    clock.now = START + 2 * DAY - 1
    await responses.find(OWNER, response_id(1))
    clock.now += 1
    for id in (response_id(1), "resp_1", f"{response_id(1)}0", ""):
        with pytest.raises(DocumentNotFound):
            await responses.find(OWNER, id)
    for id in ("resp_1", f"{response_id(1)}0", ""):
        with pytest.raises(DocumentNotFound):
            await responses.delete(OWNER, id)
