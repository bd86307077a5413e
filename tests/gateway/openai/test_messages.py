"""Messages of a conversation: content parts, deprecated forms, and the order of tool results."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from gateway.openai.messages import Message, check_tool_results, text_of, to_wire

_message: TypeAdapter[Any] = TypeAdapter(cast(Any, Message))  # a union of types


def read(**fields: Any) -> Any:
    return _message.validate_python(fields)


def test_parts_are_joined_by_newlines() -> None:
    message = read(role="user", content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    assert text_of(message.content) == "a\nb"
    assert to_wire(message) == {"role": "user", "content": "a\nb"}


@pytest.mark.parametrize(
    "part", [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text"}, {"type": "text", "text": None}]
)
def test_other_and_empty_parts_are_refused(part: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read(role="user", content=[part])


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
