"""Requests of Ollama's `/api/chat`: validated, and translated to chat completions."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.ollama.chat_request import OllamaChatRequest
from gateway.errors import InvalidRequest
from tests.gateway.conftest import HI, MODEL
from tests.gateway.openai.test_tools import CITY, tool

PIXEL = "iVBORw0KGgo="
IMAGE_PART = {"type": "image_url", "image_url": {"url": f"data:image/any;base64,{PIXEL}"}}


def call(name: str, **fields: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": {"city": "Łódź"}}, **fields}


def called(name: str, call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": '{"city": "Łódź"}'}}


def parse(**fields: Any) -> OllamaChatRequest:
    return OllamaChatRequest.parse({"model": MODEL, "messages": HI} | fields)


def messages(*sent: dict[str, Any]) -> list[dict[str, Any]]:
    chat = parse(messages=list(sent)).chat
    assert chat is not None
    return [message.model_dump(exclude_none=True) for message in chat.messages]


def test_roles_thinking_and_images_are_translated() -> None:
    assert messages(
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is it?", "images": [PIXEL]},
        {"role": "assistant", "content": "A dot.", "thinking": "Hm."},
        {"role": "user", "images": [PIXEL]},
    ) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [IMAGE_PART, {"type": "text", "text": "What is it?"}]},
        {"role": "assistant", "content": "A dot.", "reasoning_content": "Hm."},
        {"role": "user", "content": [IMAGE_PART]},
    ]


def test_results_are_matched_with_calls_by_id_name_or_order() -> None:
    ask = {"role": "user", "content": "hi"}
    first = {"role": "assistant", "content": "", "tool_calls": [call("f"), call("g"), call("f", id="own")]}
    results = [
        {"role": "tool", "content": "1", "tool_call_id": "own"},
        {"role": "tool", "content": "2", "tool_name": "g"},
        {"role": "tool", "content": "3"},
    ]
    again = {"role": "assistant", "tool_calls": [call("f")]}
    assert messages(ask, first, *results, again, {"role": "tool", "content": "4", "tool_name": "f"})[1:] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [called("f", "call_0"), called("g", "call_1"), called("f", "own")],
        },
        {"role": "tool", "content": "1", "tool_call_id": "own"},
        {"role": "tool", "content": "2", "tool_call_id": "call_1"},
        {"role": "tool", "content": "3", "tool_call_id": "call_0"},
        {"role": "assistant", "content": "", "tool_calls": [called("f", "call_3")]},
        {"role": "tool", "content": "4", "tool_call_id": "call_3"},
    ]


def test_tools_are_translated() -> None:
    chat = parse(tools=[tool("f", parameters=CITY)]).chat
    assert chat is not None
    assert [each.function.parameters for each in chat.tools or []] == [CITY]


def test_options_are_translated() -> None:
    options = {
        **{"num_predict": 7, "temperature": 0, "top_p": 0.5, "top_k": 3, "min_p": 0.1, "seed": 9, "stop": ["x"]},
        **{"repeat_penalty": 1.1, "presence_penalty": 0.1, "frequency_penalty": 0.2, "num_ctx": 2048, "mirostat": 0},
    }
    chat = parse(options=options).chat
    assert chat is not None
    assert (chat.token_limit, chat.temperature, chat.top_p, chat.top_k, chat.min_p) == (7, 0, 0.5, 3, 0.1)
    assert (chat.seed, chat.stop_strings, chat.repetition_penalty) == (9, ["x"], 1.1)
    assert (chat.presence_penalty, chat.frequency_penalty) == (0.1, 0.2)


@pytest.mark.parametrize("unlimited", [-2, -1, 0, None])
def test_no_limit_is_the_operators(unlimited: int | None) -> None:
    chat = parse(options={"num_predict": unlimited}).chat
    assert chat is not None
    assert chat.token_limit is None


@pytest.mark.parametrize(
    ("fields", "stream", "effort", "kind"),
    [
        ({}, True, None, None),
        ({"stream": False, "think": False, "format": "json"}, False, "none", "json_object"),
        ({"stream": True, "think": "high", "format": CITY}, True, "high", "json_schema"),
        ({"think": True, "format": "", "keep_alive": "5m"}, True, None, None),
    ],
)
def test_other_fields_are_translated(
    fields: dict[str, Any], stream: bool, effort: str | None, kind: str | None
) -> None:
    chat = parse(**fields).chat
    assert chat is not None
    assert (chat.stream, chat.reasoning_effort) == (stream, effort)
    assert (chat.response_format.type if chat.response_format else None) == kind


@pytest.mark.parametrize("nothing", [None, []])
def test_without_messages_nothing_is_generated(nothing: Any) -> None:
    assert parse(messages=nothing).chat is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": ""}, "model"),
        ({"messages": [{"role": "root", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0]"),
        ({"messages": [*HI, {"role": "assistant", "tool_calls": [call("f")]}, *HI]}, "messages"),
        (
            {
                "messages": [
                    {"role": "assistant", "tool_calls": [call("f")]},
                    {"role": "tool", "content": "x", "tool_call_id": "other"},
                ]
            },
            "messages[1]",
        ),
        ({"options": {"temperature": 3}}, "options.temperature"),
        ({"options": {"num_predict": "7"}}, "options.num_predict"),
        ({"options": {"stop": ["a"] * 5}}, "options.stop"),
        ({"format": "xml"}, "format"),
        ({"format": {"type": "foo"}}, "format"),
        ({"think": "much"}, "think"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"logprobs": True}, "logprobs"),
    ],
)
def test_invalid_fields_are_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    assert caught.value.param == param
