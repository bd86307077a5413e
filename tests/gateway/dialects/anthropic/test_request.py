"""Requests of Anthropic's Messages API: validated, and translated to chat completions."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequest
from tests.gateway.dialects.anthropic.test_conversation import parse
from tests.gateway.openai.test_tools import CITY

TOOL: dict[str, Any] = {"name": "f", "description": "d", "input_schema": CITY}


def test_sampling_fields_are_translated() -> None:
    chat = parse(stop_sequences=["x"], temperature=0.5, top_p=0.9, top_k=5, stream=True).chat
    assert (chat.token_limit, chat.stop_strings, chat.temperature, chat.top_p, chat.top_k) == (5, ["x"], 0.5, 0.9, 5)
    assert chat.stream


@pytest.mark.parametrize(
    ("choice", "translated", "parallel"),
    [
        ({"type": "auto"}, "auto", True),
        ({"type": "any", "disable_parallel_tool_use": True}, "required", False),
        ({"type": "none"}, "none", True),
        ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}, True),
    ],
)
def test_tools_are_translated(choice: dict[str, Any], translated: Any, parallel: bool) -> None:
    fields = parse(tools=[TOOL | {"type": "custom", "strict": True}], tool_choice=choice).chat.model_dump()
    function = {"name": "f", "description": "d", "parameters": CITY, "strict": True}
    assert fields["tools"] == [{"type": "function", "function": function}]
    assert (fields["tool_choice"], fields["parallel_tool_calls"]) == (translated, parallel)


@pytest.mark.parametrize(
    ("fields", "effort"),
    [
        ({}, None),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, None),
        ({"thinking": {"type": "disabled"}}, "none"),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, "high"),
    ],
)
def test_thinking_is_translated(fields: dict[str, Any], effort: str | None) -> None:
    chat = parse(**fields).chat
    assert chat.reasoning_effort == effort
    assert chat.thinking_token_budget == fields.get("thinking", {}).get("budget_tokens")


def test_thinking_can_be_left_out_of_the_answer() -> None:
    assert parse(thinking={"type": "adaptive", "display": "omitted"}).chat.include_reasoning is False


def test_a_schema_of_the_answer_is_translated() -> None:
    chat = parse(output_config={"format": {"type": "json_schema", "schema": CITY}}).chat
    assert chat.response_format is not None
    assert chat.response_format.json_schema is not None
    assert chat.response_format.json_schema.schema_ == CITY


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {"user_id": "u"}, "service_tier": "standard_only", "cache_control": {"type": "ephemeral"}},
        {"context_management": {"edits": []}, "mcp_servers": [], "container": None, "unknown": 1},
    ],
)
def test_fields_without_effect_are_accepted(fields: dict[str, Any]) -> None:
    assert parse(**fields).chat == parse().chat


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "document"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages[0].content[0].type"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file"}}]}]},
            "messages[0].content[0].source.type",
        ),
        ({"system": 5}, "system"),
        ({"system": [{"type": "image"}]}, "system[0].type"),
        ({"stop_sequences": ["a", "b", "c", "d", "e"]}, "stop_sequences"),
        ({"temperature": 3}, "temperature"),
        ({"stream": "yes"}, "stream"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0]"),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema"),
        ({"tools": [{"name": "a b", "input_schema": CITY}]}, "tools[0].name"),
        ({"tools": [TOOL, TOOL]}, "tools"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "g"}}, "tool_choice"),
        ({"thinking": {"type": "much"}}, "thinking.type"),
        ({"container": "c"}, "container"),
        ({"mcp_servers": [{"url": "http://127.0.0.1"}]}, "mcp_servers"),
    ],
)
def test_invalid_fields_are_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    assert caught.value.param == param
