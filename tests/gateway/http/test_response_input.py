"""The input of a response: its context, its own items and those that it refers to, within bounds."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from auth_billing.access.principal import Principal
from gateway.errors import InvalidRequest
from gateway.http import response_input as module
from gateway.http.gateway import Gateway
from gateway.http.response_input import ResponseInput, read_input, response_fields, translated
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.responses.items import InputItem, InputPart, MessageItem
from gateway.openai.responses.request import ResponseRequest
from router.messages import Failed, FailureCode
from router.producer.errors import JobFailed
from stored_objects.conversations import conversations as conversation_module
from stored_objects.conversations.conversations import Conversations
from stored_objects.errors import DocumentNotFound
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.responses import responses as response_module
from stored_objects.responses.responses import StoredResponse, StoredResponses, item_id
from tests.fakes.project_documents import stored_documents

CALLER = Principal(key_id="key-1", tenant="org-1", cache_salt="salt", project="project-1")
OTHER = Principal(key_id="key-2", tenant="org-1", cache_salt="salt", project="project-2")
OWNER = ProjectOwner.of(CALLER)


@pytest.fixture
def gateway() -> Gateway:
    """The services of a gateway that reading an input needs."""
    documents = stored_documents()
    services = SimpleNamespace(
        responses=StoredResponses(documents.responses), conversations=Conversations(documents.conversations)
    )
    return cast(Gateway, services)


def response_id(number: int) -> str:
    return f"resp_{number:032x}"


def message(id: str, text: str, role: str = "user") -> dict[str, Any]:
    part = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "id": id, "role": role, "content": [{"type": part, "text": text}], "status": "completed"}


async def keep(gateway: Gateway, number: int, *earlier: int, status: str = "completed") -> None:
    """Store a response "a<number>" to the input "q<number>"."""
    id = response_id(number)
    output = [message(item_id("msg", id, 1), f"a{number}", "assistant")]
    stored = StoredResponse(
        {"id": id, "status": status, "output": output},
        [message(item_id("msg", id, 0), f"q{number}")],
        [response_id(each) for each in earlier],
    )
    await gateway.responses.keep(OWNER, stored)


async def read(gateway: Gateway, given: Any = "new", caller: Principal = CALLER, **fields: Any) -> ResponseInput:
    return await read_input(gateway, caller, ResponseRequest.parse({"model": "m", "input": given, **fields}))


def texts(items: list[InputItem]) -> list[str]:
    found: list[str] = []
    for item in items:
        assert isinstance(item, MessageItem)
        found.append(item.content if isinstance(item.content, str) else item.content[0].text or "")
    return found


async def test_without_a_context_the_input_is_its_own_items(gateway: Gateway) -> None:
    given = await read(gateway)
    assert (texts(given.items), given.context, given.conversation) == (["new"], [], None)


async def test_earlier_responses_come_first_with_input_and_output(gateway: Gateway) -> None:
    await keep(gateway, 1)
    await keep(gateway, 2, 1)
    given = await read(gateway, previous_response_id=response_id(2))
    assert texts(given.items) == ["q1", "a1", "q2", "a2", "new"]
    assert texts(given.own) == ["new"]
    assert [each.id for each in given.context] == [response_id(1), response_id(2)]


async def test_a_conversation_s_items_come_first(gateway: Gateway) -> None:
    conversation = await gateway.conversations.create(OWNER, {}, [message("msg_1", "a"), message("msg_2", "b")])
    for reference in (conversation.id, {"id": conversation.id}):
        given = await read(gateway, conversation=reference)
        assert texts(given.items) == ["a", "b", "new"]
        assert given.conversation == conversation
    with pytest.raises(DocumentNotFound):
        await read(gateway, caller=OTHER, conversation=conversation.id)


async def test_references_are_replaced_where_they_are(gateway: Gateway) -> None:
    await keep(gateway, 1)
    question, answer = (item_id("msg", response_id(1), number) for number in (0, 1))
    reference = {"type": "item_reference", "id": answer}
    given = await read(gateway, [reference, {"role": "user", "content": "new"}, {"id": question}, reference])
    assert texts(given.own) == ["a1", "new", "q1", "a1"]
    with pytest.raises(InvalidRequest, match=f"item with id '{answer[:64]}' not found") as refused:
        await read(gateway, [reference], OTHER)
    assert (refused.value.param, refused.value.code) == ("input", "invalid_value")


async def test_references_are_bounded(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REFERENCES", 1)
    await keep(gateway, 1)
    first, second = ({"id": item_id("msg", response_id(1), number)} for number in (0, 1))
    assert texts((await read(gateway, [first, first])).own) == ["q1", "q1"]
    with pytest.raises(InvalidRequest, match="more than 1 items"):
        await read(gateway, [first, second])


async def test_a_previous_response_that_can_not_be_continued_is_refused(gateway: Gateway) -> None:
    await keep(gateway, 1)
    await keep(gateway, 2, 1)
    await keep(gateway, 3, status="in_progress")
    await gateway.responses.delete(OWNER, response_id(1))
    for number, caller in ((2, CALLER), (2, OTHER), (9, CALLER)):
        with pytest.raises(InvalidRequest) as refused:
            await read(gateway, caller=caller, previous_response_id=response_id(number))
        assert refused.value.code == "previous_response_not_found"
    with pytest.raises(InvalidRequest, match="not finished") as unfinished:
        await read(gateway, previous_response_id=response_id(3))
    assert refused.value.param == unfinished.value.param == "previous_response_id"


async def test_a_context_that_is_too_long_is_refused(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_module, "MAX_EARLIER", 0)
    monkeypatch.setattr(conversation_module, "MAX_ITEMS", 1)
    await keep(gateway, 1)
    await keep(gateway, 2, 1)
    conversation = await gateway.conversations.create(OWNER, {}, [message("msg_1", "a"), message("msg_2", "b")])
    for field, id in (("previous_response_id", response_id(2)), ("conversation", conversation.id)):
        with pytest.raises(InvalidRequest) as refused:
            await read(gateway, **cast(dict[str, Any], {field: id}))
        assert (refused.value.param, refused.value.code) == (field, "context_length_exceeded")


async def test_a_context_with_too_many_parts_is_refused(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PARTS", 5)
    await keep(gateway, 1)
    await keep(gateway, 2, 1)
    many = {**message("msg_1", "a"), "content": [{"type": "input_text", "text": "a"}] * 5}
    conversation = await gateway.conversations.create(OWNER, {}, [many])
    assert len((await read(gateway, previous_response_id=response_id(1))).items) == 3
    for field, id in (("previous_response_id", response_id(2)), ("conversation", conversation.id)):
        with pytest.raises(InvalidRequest, match="parts of items") as refused:
            await read(gateway, **cast(dict[str, Any], {field: id}))
        assert (refused.value.param, refused.value.code) == (field, "context_length_exceeded")


async def test_a_repeated_reference_counts_each_time(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    await keep(gateway, 1)
    question, answer = ({"id": item_id("msg", response_id(1), number)} for number in (0, 1))
    with monkeypatch.context() as patched:
        patched.setattr(module, "MAX_CONTEXT_BYTES", 1000)
        assert len((await read(gateway, [question, answer, question])).own) == 3
        with pytest.raises(InvalidRequest, match="more than 1000 bytes") as refused:
            await read(gateway, [question, answer] * 10)
        assert refused.value.param == "input"
    monkeypatch.setattr(module, "MAX_PARTS", 5)
    with pytest.raises(InvalidRequest, match="parts of items") as refused:
        await read(gateway, [question] * 10)
    assert refused.value.param == "input"


async def test_long_input_is_translated_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INLINE_PARTS", 3)
    body = ChatCompletionRequest.parse({"model": "m", "messages": [{"role": "user", "content": "a"}]})
    threads: list[bool] = []

    def translate() -> ChatCompletionRequest:
        threads.append(threading.current_thread() is threading.main_thread())
        return body

    part = InputPart(type="input_text", text="a")
    for number in (2, 3):
        item = MessageItem(role="user", content=[part] * number)
        assert await translated([item], translate) is body
    assert threads == [True, False]


async def test_many_items_are_read_in_order(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INLINE_PARTS", 1)
    await keep(gateway, 1)
    assert texts((await read(gateway, previous_response_id=response_id(1))).items) == ["q1", "a1", "new"]


def test_errors_about_the_chat_completion_name_the_response_s_field() -> None:
    with pytest.raises(InvalidRequest, match="Invalid 'input'") as refused, response_fields():
        raise InvalidRequest("Invalid 'messages[0].content': no.", param="messages[0].content", code="x")
    assert (refused.value.param, refused.value.code) == ("input", "x")
    failed = Failed(
        job_id="a", attempt_id="b", code=FailureCode.INVALID_PROMPT, message="No.", param="max_completion_tokens"
    )
    with pytest.raises(JobFailed) as ended, response_fields():
        raise JobFailed(failed)
    assert ended.value.param == "max_output_tokens"
