"""Turns of Anthropic's API become messages of a chat completion."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.anthropic.request import MessagesRequest
from gateway.errors import InvalidRequest
from tests.gateway.conftest import MODEL

PIXEL = "iVBORw0KGgo="
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
IMAGE_PART = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}


def use(call: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "f", "input": {"city": "Łódź"}}


def result(call: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, **fields}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def called(call: str) -> dict[str, Any]:
    return {"id": call, "type": "function", "function": {"name": "f", "arguments": '{"city": "Łódź"}'}}


CONVERSATIONS: dict[str, tuple[Any, list[tuple[str, Any]], list[dict[str, Any]]]] = {
    "text": (None, [("user", "hi")], [{"role": "user", "content": "hi"}]),
    "instructions": (
        [text("Be brief.") | {"cache_control": {"type": "ephemeral"}}, text("Be kind.")],
        [("user", [text("hi")])],
        [
            {"role": "system", "content": [text("Be brief."), text("Be kind.")]},
            {"role": "user", "content": "hi"},
        ],
    ),
    "empty instructions": ("", [("user", "hi")], [{"role": "user", "content": "hi"}]),
    "neighbours of one role": (
        None,
        [("user", "a"), ("user", "b"), ("assistant", "c"), ("assistant", "d"), ("user", "e")],
        [
            {"role": "user", "content": [text("a"), text("b")]},
            {"role": "assistant", "content": [text("c"), text("d")]},
            {"role": "user", "content": "e"},
        ],
    ),
    "an instruction later": (
        None,
        [("user", "a"), ("system", "s"), ("user", "b")],
        [{"role": "user", "content": "a"}, {"role": "system", "content": "s"}, {"role": "user", "content": "b"}],
    ),
    "an image": (
        None,
        [("user", [IMAGE, text("What is it?")])],
        [{"role": "user", "content": [IMAGE_PART, text("What is it?")]}],
    ),
    "tool results": (
        None,
        [
            ("user", "hi"),
            ("assistant", [text("Let me see."), use("a"), use("b")]),
            ("user", [result("b", content="2"), result("a", content=[text("1"), IMAGE]), text("And?")]),
        ],
        [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "Let me see.", "tool_calls": [called("a"), called("b")]},
            {"role": "tool", "content": "2", "tool_call_id": "b"},
            {"role": "tool", "content": "1", "tool_call_id": "a"},
            {"role": "user", "content": [IMAGE_PART, text("And?")]},
        ],
    ),
    "a result without content": (
        None,
        [("user", "hi"), ("assistant", [use("a")]), ("user", [result("a", is_error=True)])],
        [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "", "tool_calls": [called("a")]},
            {"role": "tool", "content": "", "tool_call_id": "a"},
        ],
    ),
    "thinking": (
        None,
        [
            ("user", "hi"),
            (
                "assistant",
                [
                    {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                    {"type": "redacted_thinking", "data": "x"},
                    text("Yes."),
                ],
            ),
            ("user", "Why?"),
        ],
        [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."},
            {"role": "user", "content": "Why?"},
        ],
    ),
}


def parse(**fields: Any) -> MessagesRequest:
    messages = [{"role": "user", "content": "hi"}]
    return MessagesRequest.parse({"model": MODEL, "max_tokens": 5, "messages": messages} | fields)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_is_translated(name: str) -> None:
    system, turns, messages = CONVERSATIONS[name]
    request = parse(system=system, messages=[{"role": role, "content": content} for role, content in turns])
    assert [message.model_dump(exclude_none=True) for message in request.chat.messages] == messages
    assert not request.chat.continue_final_message


def test_the_last_message_of_the_assistant_is_continued() -> None:
    chat = parse(messages=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "The"}]).chat
    assert (chat.continue_final_message, chat.add_generation_prompt) == (True, False)


@pytest.mark.parametrize(
    "turns",
    [
        [("user", [result("a")])],
        [("user", "hi"), ("assistant", [use("a")])],
        [("user", "hi"), ("assistant", [use("a")]), ("user", "so?")],
        [("user", "hi"), ("assistant", [use("a")]), ("user", [result("b")])],
        [("user", "hi"), ("assistant", [use("a")]), ("user", [result("a"), result("a")])],
        [("user", "hi"), ("assistant", [use("a"), use("b")]), ("user", [result("a")])],
    ],
)
def test_results_must_answer_the_calls_before_them(turns: list[tuple[str, Any]]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(messages=[{"role": role, "content": content} for role, content in turns])
    assert caught.value.param == "messages"
