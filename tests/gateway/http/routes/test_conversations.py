"""Conversations with the stock client: a restarted gateway has them, the other one too, no other project."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from router.messages import ChatPrompt
from stored_objects.project_documents.project_documents import StoredDocuments
from stored_objects.project_documents.quota import BLOCK
from tests.fakes.byte_counts import MIB
from tests.fakes.scripted_worker import fail, say
from tests.gateway.conftest import MODEL, OTHER_KEY, Stage, stage
from tests.gateway.http.routes.test_stored_responses import PROJECT, counted
from tests.gateway.restarts import client_of, restarted

HELLO: Any = {"type": "message", "role": "user", "content": "hello"}


def text_of(item: Any) -> Any:
    return item.content[0].text


async def test_a_conversation_outlives_its_gateway(documents: StoredDocuments) -> None:
    async with stage(documents=documents) as first:
        conversations = client_of(first.client).conversations
        created = await conversations.create(metadata={"topic": "demo"}, items=[HELLO])
        assert (created.object, created.metadata) == ("conversation", {"topic": "demo"})
        added = await conversations.items.create(
            created.id, items=[{"type": "message", "role": "assistant", "content": "hi"}, HELLO]
        )
        assert [item.id for item in added.data] == [added.first_id, *[added.last_id]]
        changed = await conversations.update(created.id, metadata={"topic": "test"})
    async with restarted(documents) as client:
        assert await client.conversations.retrieve(created.id) == changed
        listed = [each async for each in client.conversations.items.list(created.id, order="asc", limit=2)]
        assert [text_of(item) for item in listed] == ["hello", "hi", "hello"]
        assert [item.id for item in listed[1:]] == [item.id for item in added.data]
        newest = await client.conversations.items.list(created.id, limit=1)
        assert ([item.id for item in newest.data], newest.has_more) == ([listed[-1].id], True)
        found = await client.conversations.items.retrieve(listed[0].id, conversation_id=created.id)  # type: ignore[arg-type]
        assert found == listed[0]


async def test_responses_read_and_extend_a_conversation(documents: StoredDocuments) -> None:
    async with stage(say("Hello", " Ada."), documents=documents) as first:
        client = client_of(first.client)
        conversation = await client.conversations.create(items=[HELLO])
        response = await client.responses.create(model=MODEL, conversation=conversation.id, input="I am Ada.")
        assert response.conversation is not None
        assert response.conversation.id == conversation.id
        assert _messages(first) == [("user", "hello"), ("user", "I am Ada.")]
        stream = await client.responses.create(
            model=MODEL, conversation={"id": conversation.id}, input="Bye.", stream=True, store=False
        )
        assert [event.type async for event in stream][-1] == "response.completed"
        assert _messages(first)[2:] == [("assistant", "Hello Ada."), ("user", "Bye.")]
    async with restarted(documents) as client:
        listed = [each async for each in client.conversations.items.list(conversation.id, order="asc")]
        assert [text_of(item) for item in listed] == ["hello", "I am Ada.", "Hello Ada.", "Bye.", "Hello Ada."]
        assert listed[2].id == response.output[0].id


async def test_calls_of_tools_are_items_too(documents: StoredDocuments) -> None:
    call: Any = {"type": "function_call", "call_id": "c1", "name": "sum", "arguments": "{}"}
    output: Any = {"type": "function_call_output", "call_id": "c1", "output": "4"}
    async with stage(documents=documents) as first:
        client = client_of(first.client)
        conversation = await client.conversations.create(items=[HELLO, call])
        await client.responses.create(model=MODEL, conversation=conversation.id, input=[output])
        assert _messages(first)[-1] == ("tool", "4")


async def test_an_item_with_a_known_id_is_another_item(documents: StoredDocuments) -> None:
    async with stage(documents=documents) as first:
        client = client_of(first.client)
        conversation = await client.conversations.create(items=[HELLO])
        (item,) = (await client.conversations.items.list(conversation.id)).data
        again: Any = {**HELLO, "id": item.id}
        await client.conversations.items.create(conversation.id, items=[again])
        await client.responses.create(model=MODEL, conversation=conversation.id, input=[again])
        listed = [each async for each in client.conversations.items.list(conversation.id)]
        assert len({each.id for each in listed}) == 4


async def test_a_failed_response_adds_nothing() -> None:
    async with stage(fail("engine_error")) as first:  # type: ignore[arg-type]
        client = client_of(first.client)
        conversation = await client.conversations.create()
        with pytest.raises(openai.APIError):
            await client.responses.create(model=MODEL, conversation=conversation.id, input="hi")
        assert (await client.conversations.items.list(conversation.id)).data == []


async def test_deleted_items_and_conversations_are_erased(documents: StoredDocuments) -> None:
    async with stage(documents=documents) as first:
        conversations = client_of(first.client).conversations
        kept, gone = await conversations.create(items=[HELLO, HELLO]), await conversations.create(items=[HELLO])
        (newest, oldest) = (await conversations.items.list(kept.id)).data
        after = await conversations.items.delete(newest.id, conversation_id=kept.id)  # type: ignore[arg-type]
        assert after.id == kept.id
        (item,) = (await conversations.items.list(gone.id)).data
        deleted = await conversations.delete(gone.id)
        assert (deleted.id, deleted.deleted, deleted.object) == (gone.id, True, "conversation.deleted")
    async with restarted(documents) as client:
        assert [each.id async for each in client.conversations.items.list(kept.id)] == [oldest.id]
        for call in (client.conversations.retrieve, client.conversations.delete, client.conversations.items.list):
            with pytest.raises(openai.NotFoundError):
                await call(gone.id)
        with pytest.raises(openai.NotFoundError):
            await client.conversations.items.retrieve(item.id, conversation_id=gone.id)  # type: ignore[arg-type]
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model=MODEL, conversation=gone.id, input="hi")


async def test_a_full_project_gets_no_conversation_and_no_item() -> None:
    async with stage(say("Hello.")) as first:
        client = client_of(first.client)
        created = await client.conversations.create(items=[HELLO])
        await first.gateway.documents.quota.release(PROJECT, -100 * MIB)
        await first.gateway.documents.quota.reserve(PROJECT, BLOCK)
        for call in (
            client.conversations.create(),
            client.conversations.items.create(created.id, items=[HELLO]),
        ):
            with pytest.raises(openai.RateLimitError) as refused:
                await call
            assert refused.value.code == "insufficient_quota"
        response = await client.responses.create(model=MODEL, conversation=created.id, input="hi")
        assert response.output_text == "Hello."
        assert len((await client.conversations.items.list(created.id)).data) == 1
        await client.conversations.delete(created.id)
        assert await counted(first) == 100 * MIB + BLOCK


async def test_other_projects_can_not_tell_that_a_conversation_exists() -> None:
    async with stage() as first:
        created = await client_of(first.client).conversations.create(items=[HELLO])
        (item,) = (await client_of(first.client).conversations.items.list(created.id)).data
        other = client_of(first.client, OTHER_KEY)
        calls = (
            other.conversations.retrieve,
            other.conversations.delete,
            lambda id: other.conversations.update(id, metadata={}),
            other.conversations.items.list,
            lambda id: other.conversations.items.create(id, items=[HELLO]),
            lambda id: other.conversations.items.retrieve(str(item.id), conversation_id=id),
            lambda id: other.conversations.items.delete(str(item.id), conversation_id=id),
            lambda id: other.responses.create(model=MODEL, conversation=id, input="hi"),
        )
        for call in calls:
            errors = []
            for id in (created.id, "conv_" + "0" * 32):
                with pytest.raises(openai.NotFoundError) as refused:
                    await call(id)
                errors.append(str(refused.value).replace(id, "ID"))
            assert errors[0] == errors[1]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/conversations", {"items": [HELLO] * 21}, "items"),
        ("/v1/conversations", {"items": [{"type": "item_reference", "id": "msg_1"}]}, "items"),
        ("/v1/conversations/conv_1/items", {"items": []}, "items"),
        ("/v1/conversations/conv_1", {}, "metadata"),
        (
            "/v1/responses",
            {"model": MODEL, "input": "a", "conversation": "conv_1", "previous_response_id": "resp_1"},
            "conversation",
        ),
    ],
)
async def test_the_field_at_fault_is_named(path: str, body: Any, param: str) -> None:
    async with stage() as first:
        response = await first.client.post(path, json=body)
        assert (response.status_code, response.json()["error"]["param"]) == (400, param)


def _messages(stage: Stage) -> list[tuple[str, str]]:
    prompt = stage.worker.jobs[-1].prompt
    assert isinstance(prompt, ChatPrompt)
    return [(message["role"], _text(message["content"])) for message in prompt.messages]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
