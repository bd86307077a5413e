"""Stored chat completions with the stock client: a restarted gateway has them, the other one too, no other project."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import openai
import pytest

from auth_billing.access.principal import Principal
from auth_billing.errors import StoreUnavailable
from stored_objects.project_documents.project_documents import ProjectDocuments, Retention, StoredDocuments
from stored_objects.project_documents.records import ProjectDocument
from tests.fakes import project_documents as in_memory
from tests.fakes.byte_counts import document_quota
from tests.fakes.project_documents import DictDocumentStore
from tests.fakes.scripted_worker import start_and_wait
from tests.gateway.conftest import HI, KEY, MODEL, OTHER_KEY, Stage, eventually, stage
from tests.gateway.restarts import client_of, restarted

SAME_PROJECT = "hr_live_same_project"
OTHER_PROJECT = "hr_live_other_project"


async def create(stage: Stage, *, key: str = KEY, **fields: Any) -> Any:
    fields = {"model": MODEL, "messages": HI, "store": True} | fields
    return await client_of(stage.client, key).chat.completions.create(**fields)


async def test_a_completion_outlives_its_gateway(documents: StoredDocuments) -> None:
    async with stage(documents=documents) as first:
        created = await create(first, metadata={"task": "greeting"})
    async with restarted(documents) as client:
        found = await client.chat.completions.retrieve(created.id)
        assert found.model_dump(exclude={"metadata"}) == created.model_dump(exclude={"metadata"})
        assert found.metadata == {"task": "greeting"}
        (listed,) = (await client.chat.completions.list()).data
        assert listed == found


async def test_a_streamed_completion_is_stored_as_one_that_is_not(documents: StoredDocuments) -> None:
    async with stage(documents=documents) as first:
        whole = await create(first, seed=7, n=2, logprobs=True)
        stream = await create(first, seed=7, n=2, logprobs=True, stream=True)
        chunks = [chunk async for chunk in stream]
        assert len(await documents_of(first)) == 2
    async with restarted(documents) as client:
        found = await client.chat.completions.retrieve(chunks[0].id)
        assert found.choices == whole.choices
        assert found.usage == whole.usage
        assert found.object == "chat.completion"


async def documents_of(stage: Stage) -> list[Any]:
    return (await client_of(stage.client).chat.completions.list()).data


async def test_completions_without_store_and_unfinished_ones_are_not_kept() -> None:
    async with stage() as first:
        await create(first, store=False)
        await create(first, store=None)
        first.worker.script = start_and_wait
        stream = await create(first, stream=True)
        await anext(aiter(stream))
        await stream.close()
        await eventually(lambda: len(first.gateway.inbox) == 0)
        assert await documents_of(first) == []


async def test_lists_have_pages_orders_and_filters(documents: StoredDocuments) -> None:
    async with stage(documents=documents) as first:
        ids = [(await create(first, metadata={"n": str(number), "all": "yes"})).id for number in range(5)]
    async with restarted(documents) as client:
        completions = client.chat.completions
        assert [each.id async for each in completions.list(limit=2)] == ids
        assert [each.id async for each in completions.list(limit=2, order="desc")] == ids[::-1]
        page = await completions.list(limit=2, after=ids[0])
        assert ([each.id for each in page.data], page.has_more) == (ids[1:3], True)
        assert [each.id async for each in completions.list(metadata={"n": "3", "all": "yes"})] == ids[3:4]
        assert [each.id async for each in completions.list(model=MODEL, limit=100)] == ids
        assert [each.id async for each in completions.list(model="another")] == []
        with pytest.raises(openai.BadRequestError) as refused:
            await completions.list(after="chatcmpl-unknown")
        assert refused.value.param == "after"


async def test_metadata_is_replaced(documents: StoredDocuments) -> None:
    async with stage(documents=documents) as first:
        created = await create(first, metadata={"a": "b"})
        changed = await client_of(first.client).chat.completions.update(created.id, metadata={"c": "d"})
        assert changed.metadata == {"c": "d"}
    async with restarted(documents) as client:
        found = await client.chat.completions.retrieve(created.id)
        assert found == changed
        assert [each.id async for each in client.chat.completions.list(metadata={"a": "b"})] == []


async def test_the_messages_that_were_answered(documents: StoredDocuments) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "sum", "arguments": '{"$ref": 1}'}}
    messages: list[Any] = [
        {"role": "system", "content": "Add."},
        {"role": "user", "content": [{"type": "text", "text": "2 + 2?"}], "name": "ada"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "4"},
    ]
    async with stage(documents=documents) as first:
        created = await create(first, messages=messages)
    async with restarted(documents) as client:
        found = [each async for each in client.chat.completions.messages.list(created.id, limit=3)]
        assert [(each.role, each.content) for each in found] == [
            ("system", "Add."),
            ("user", None),
            ("assistant", None),
            ("tool", "4"),
        ]
        parts = [part.model_dump(exclude_none=True) for part in found[1].content_parts or []]
        assert parts == [{"type": "text", "text": "2 + 2?"}]
        assert found[2].tool_calls is not None
        assert found[2].tool_calls[0].model_dump() == call
        newest = await client.chat.completions.messages.list(created.id, order="desc", limit=1)
        assert newest.data == found[3:]
        assert newest.has_more


async def test_a_deleted_completion_is_erased(documents: StoredDocuments) -> None:
    async with stage(documents=documents) as first:
        created, other = await create(first), await create(first)
        deleted = await client_of(first.client).chat.completions.delete(created.id)
        assert (deleted.id, deleted.deleted, deleted.object) == (created.id, True, "chat.completion.deleted")
    async with restarted(documents) as client:
        completions = client.chat.completions
        for call in (completions.retrieve, completions.delete, completions.messages.list):
            with pytest.raises(openai.NotFoundError):
                await call(created.id)
        assert [each.id async for each in completions.list()] == [other.id]


async def test_keys_of_a_project_share_and_others_find_nothing(documents: StoredDocuments) -> None:
    async with stage(documents=documents) as first:
        created = await create(first, metadata={"a": "b"})
        for number, key in enumerate((SAME_PROJECT, OTHER_PROJECT), start=1):
            added = Principal(f"key-of-{number}", "tenant-1", "salt-1", project=f"project-{number}")
            first.accounts.added[key] = added
        same = client_of(first.client, SAME_PROJECT)
        assert (await same.chat.completions.retrieve(created.id)).id == created.id
        for key in (OTHER_PROJECT, OTHER_KEY):
            completions = client_of(first.client, key).chat.completions
            assert [each async for each in completions.list()] == []
            unknown = "chatcmpl-" + "0" * 32
            for call in (
                completions.retrieve,
                completions.delete,
                completions.messages.list,
                lambda id: completions.update(id, metadata={}),  # noqa: B023 - called at once
            ):
                errors = []
                for id in (created.id, unknown):
                    with pytest.raises(openai.NotFoundError) as refused:
                        await call(id)
                    errors.append(str(refused.value).replace(id, "ID"))
                assert errors[0] == errors[1]
            with pytest.raises(openai.BadRequestError):
                await completions.list(after=created.id)
        assert (await same.chat.completions.retrieve(created.id)).id == created.id


class CountingStore(DictDocumentStore):
    """Counts inserts, of which it refuses the first ones."""

    def __init__(self, refused: int = 0) -> None:
        super().__init__()
        self.inserts = 0
        self.refused = refused

    async def insert(self, documents: Any) -> None:
        self.inserts += 1
        if self.inserts <= self.refused:
            raise StoreUnavailable("away")
        await super().insert(documents)


def documents_in(store: DictDocumentStore) -> StoredDocuments:
    return replace(in_memory.stored_documents(), completions=ProjectDocuments(store, Retention(30), document_quota()))


@pytest.mark.parametrize("stream", [False, True])
async def test_one_write_stores_a_completion_before_its_end(stream: bool) -> None:
    store = CountingStore()
    async with stage(documents=documents_in(store)) as first:
        answer = await create(first, stream=stream)
        if stream:
            async for chunk in answer:
                if chunk.choices and chunk.choices[0].finish_reason:
                    break
        assert store.inserts == 1
        assert sum(1 for each in store.records.values() if not each.parent) == 1


async def test_an_answer_goes_out_without_the_store_and_is_stored_later() -> None:
    store = CountingStore(refused=1)
    async with stage(documents=documents_in(store)) as first:
        created = await create(first)
        assert created.choices[0].finish_reason == "length"
        await eventually(lambda: created.id in store.records)


async def test_a_restart_of_a_gateway_waits_for_what_is_not_stored_yet() -> None:
    store = CountingStore(refused=1)
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(stage(documents=documents_in(store)))
        created = await create(first)
        stored: dict[str, ProjectDocument] = store.records
        assert created.id not in stored
    assert created.id in stored


@pytest.mark.parametrize(
    ("method", "path", "fields"),
    [
        ("GET", "/v1/chat/completions?order=newest", {}),
        ("GET", "/v1/chat/completions?metadata[a]=b&metadata[a]=c", {}),
        ("GET", "/v1/chat/completions?metadata=b", {}),
        ("GET", "/v1/chat/completions?limit=101", {}),
        ("POST", "/v1/chat/completions/chatcmpl-1", {"json": {}}),
        ("POST", "/v1/chat/completions/chatcmpl-1", {"json": {"metadata": {"a": 1}}}),
    ],
)
async def test_what_is_refused(method: str, path: str, fields: Any) -> None:
    async with stage() as first:
        assert (await first.client.request(method, path, **fields)).status_code == 400


async def test_an_idempotency_key_repeats_no_answer_about_another_object_or_to_another_project() -> None:
    same = {"idempotency-key": "k"}
    async with stage() as first:
        first.accounts.added[OTHER_PROJECT] = Principal("key-of-2", "tenant-1", "salt-1", project="project-2")
        own = client_of(first.client).chat.completions
        others = client_of(first.client, OTHER_PROJECT).chat.completions
        one, two = [await create(first, extra_headers={"idempotency-key": key}) for key in ("a", "b")]
        changed = [await own.update(each.id, metadata={"c": "d"}, extra_headers=same) for each in (one, two)]
        assert [each.id for each in changed] == [one.id, two.id]
        with pytest.raises(openai.NotFoundError):
            await others.update(one.id, metadata={"c": "d"}, extra_headers=same)
        third = await create(first, key=OTHER_PROJECT, extra_headers={"idempotency-key": "a"})
        assert third.id != one.id
        assert (await others.retrieve(third.id)).id == third.id


async def test_a_message_of_a_completion_is_no_completion() -> None:
    async with stage() as first:
        created = await create(first)
        completions = client_of(first.client).chat.completions
        (message,) = (await completions.messages.list(created.id)).data
        for call in (completions.retrieve, completions.delete, completions.messages.list):
            with pytest.raises(openai.NotFoundError):
                await call(message.id)
        with pytest.raises(openai.NotFoundError):
            await completions.update(message.id, metadata={})
        assert (await completions.messages.list(created.id)).data == [message]
