"""Messages of a conversation: content parts, deprecated forms, and the order of tool results."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from gateway.openai.messages import Message, check_tool_results, image_urls, text_of, to_wire

_message: TypeAdapter[Any] = TypeAdapter(cast(Any, Message))  # a union of types


def read(**fields: Any) -> Any:
    return _message.validate_python(fields)


def test_parts_are_joined_by_newlines() -> None:
    message = read(role="user", content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    assert text_of(message.content) == "a\nb"
    assert to_wire(message) == {"role": "user", "content": "a\nb"}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_audio", "input_audio": {}},
        {"type": "image_url"},
        {"type": "image_url", "image_url": {"url": ""}},
        {"type": "file"},
        {"type": "file", "file": {"filename": "a.txt"}},
        {"type": "file", "file": {"file_id": "file-1", "file_data": "AA=="}},
        {"type": "text"},
        {"type": "text", "text": None},
    ],
)
def test_other_and_empty_parts_are_refused(part: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read(role="user", content=[part])


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}


def test_images_keep_their_places_between_the_texts() -> None:
    texts = [{"type": "text", "text": each} for each in "abc"]
    message = read(role="user", content=[texts[0], texts[1], IMAGE, IMAGE, texts[2]])
    assert text_of(message.content) == "a\nb\nc"
    assert to_wire(message)["content"] == [
        {"type": "text", "text": "a\nb"},
        {"type": "image"},
        {"type": "image"},
        {"type": "text", "text": "c"},
    ]
    assert list(image_urls([read(role="system", content="x"), message])) == [
        ("messages[1].content[2].image_url", "data:image/png;base64,AA=="),
        ("messages[1].content[3].image_url", "data:image/png;base64,AA=="),
    ]


@pytest.mark.parametrize("role", ["system", "assistant"])
def test_only_users_and_tools_messages_have_images_and_files(role: str) -> None:
    for part in (IMAGE, {"type": "file", "file": {"file_id": "file-1"}}):
        with pytest.raises(ValidationError, match="roles 'user' and 'tool'"):
            read(role=role, content=[part])


def test_an_image_of_a_tools_output_keeps_its_place() -> None:
    message = read(role="tool", tool_call_id="1", content=[{"type": "text", "text": "a"}, IMAGE])
    assert to_wire(message) == {
        "role": "tool",
        "tool_call_id": "1",
        "content": [{"type": "text", "text": "a"}, {"type": "image"}],
    }
    (only,) = image_urls([read(role="user", content="x"), message])
    assert only[0] == "messages[1].content[1].image_url"


def test_an_assistants_message_is_not_empty() -> None:
    with pytest.raises(ValidationError):
        read(role="assistant")
    assert to_wire(read(role="assistant", refusal="No."))["content"] == "No."


def test_deprecated_calls_and_results_become_tool_calls_and_tool_messages() -> None:
    call = to_wire(read(role="assistant", function_call={"name": "f", "arguments": "{}"}))
    result = to_wire(read(role="function", name="f", content="1"))
    assert call["tool_calls"] == [
        {"id": "call_f", "type": "function", "function": {"name": "f", "arguments": "{}"}},
    ]
    assert "function_call" not in call
    assert (result["role"], result["tool_call_id"]) == ("tool", "call_f")


CALLS = {
    "role": "assistant",
    "tool_calls": [{"id": each, "type": "function", "function": {"name": "f", "arguments": ""}} for each in "ab"],
}


def result(call: str) -> dict[str, str]:
    return {"role": "tool", "content": "x", "tool_call_id": call}


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([CALLS, result("b"), result("a")], None),
        ([CALLS, result("a")], "messages[1]"),
        ([CALLS], "messages[0]"),
        ([result("a")], "messages[0]"),
        ([CALLS, result("a"), {"role": "user", "content": "x"}], "messages[2]"),
        ([CALLS, result("a"), result("c")], "messages[2]"),
    ],
)
def test_every_tool_call_is_answered_before_the_conversation_continues(messages: list[Any], place: str | None) -> None:
    conversation = [read(**each) for each in messages]
    if place is None:
        check_tool_results(conversation)
        return
    with pytest.raises(PydanticCustomError) as caught:
        check_tool_results(conversation)
    assert str(caught.value).startswith(place)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_the_reasoning_of_an_earlier_answer_is_passed_on(name: str) -> None:
    wire = to_wire(read(role="assistant", content="4", **{name: "2 + 2"}))
    assert wire == {"role": "assistant", "content": "4", "reasoning_content": "2 + 2"}
