"""Tools and tool choice: invalid values are refused by name, valid ones reach the worker."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.openai.chat_completions import ChatCompletionRequest
from router.messages import ChatPrompt, ToolChoice, ToolMode
from tests.gateway.conftest import MODEL, SetStage

HI = [{"role": "user", "content": "hi"}]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
RESULT = {"role": "tool", "content": "x", "tool_call_id": "call_1"}


def tool(name: Any = "f", **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **fields}}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def allowed(mode: Any, *names: str) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [tool(name) for name in names]}}


BAD_NAMES = ("a b", "../x", "", "x" * 300, "x" * 65, "f\n", "é", "a.b", None, 5)
BAD_PARAMETERS: list[Any] = [
    "x",
    [],
    5,
    True,
    {"type": "string"},
    {"type": "foo"},
    {"type": []},
    {"type": [5]},
    {"properties": []},
    {"properties": {"a": 5}},
    {"properties": {"a": {"type": "nonsense"}}},
    {"required": "a"},
    {"required": [1]},
    {"anyOf": []},
    {"items": "x"},
    {"items": [{"type": "nonsense"}]},
    {"$defs": {"a": {"enum": 5}}},
    {"$ref": 5},
    nested(30),
    {"properties": {f"p{number}": {"type": "string"} for number in range(6000)}},
]
BAD: list[tuple[dict[str, Any], str]] = [
    ({"tools": [tool(f"f{number}") for number in range(1000)]}, "tools"),
    ({"tools": [tool("f"), tool("g"), tool("f")]}, "tools"),
    ({"tools": "f"}, "tools"),
    ({"tools": [None]}, "tools[0]"),
    ({"tools": [{"type": "function"}]}, "tools[0].function"),
    ({"tools": [{"type": "retrieval", "function": {"name": "f"}}]}, "tools[0].type"),
    ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0].type"),
    ({"tools": [tool(strict="yes")]}, "tools[0].function.strict"),
    ({"tools": [tool(description=5)]}, "tools[0].function.description"),
    *(({"tools": [tool(name)]}, "tools[0].function.name") for name in BAD_NAMES),
    *(({"tools": [tool(parameters=wrong)]}, "tools[0].function.parameters") for wrong in BAD_PARAMETERS),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": tool("f")}, "tool_choice"),
    ({"tools": [], "tool_choice": "required"}, "tool_choice"),
    ({"tools": [tool()], "tool_choice": tool("g")}, "tool_choice"),
    ({"tools": [tool()], "tool_choice": allowed("auto", "f", "g")}, "tool_choice"),
    ({"tools": [tool()], "tool_choice": allowed("none", "f")}, "tool_choice.allowed_tools.mode"),
    ({"tools": [tool()], "tool_choice": allowed("auto")}, "tool_choice.allowed_tools.tools"),
    ({"tools": [tool()], "tool_choice": {"type": "function"}}, "tool_choice.function"),
    ({"tools": [tool()], "tool_choice": "any"}, "tool_choice"),
    ({"tools": [tool()], "tool_choice": 5}, "tool_choice"),
    ({"tools": [tool()], "parallel_tool_calls": "no"}, "parallel_tool_calls"),
    ({"functions": [{"name": "f"}, {"name": "f"}]}, "functions"),
    ({"functions": [{"name": "a b"}]}, "functions[0].name"),
    ({"functions": [{"name": "f", "parameters": []}]}, "functions[0].parameters"),
    ({"functions": [{"name": "f"}], "tools": [tool()]}, "functions"),
    ({"functions": [{"name": "f"}], "function_call": {"name": "g"}}, "function_call"),
    ({"functions": [{"name": "f"}], "function_call": "required"}, "function_call"),
    ({"function_call": {"name": "f"}}, "function_call"),
    ({"functions": [], "function_call": {"name": "f"}}, "function_call"),
]


def parse(**fields: Any) -> ChatCompletionRequest:
    return ChatCompletionRequest.parse({"model": MODEL, "messages": HI, **fields})


@pytest.mark.parametrize(("fields", "param"), BAD)
def test_invalid_tools_are_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    assert caught.value.param == param
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        CITY,
        nested(10),
        {"type": "object", "additionalProperties": False, "properties": {"a": {"type": ["string", "null"]}, "b": True}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"anyOf": [{"enum": [1]}, {}]}}},
        {"properties": {"type": {"type": "string"}, "required": {"type": "array", "items": {"type": "number"}}}},
    ],
)
def test_valid_parameter_schemas_are_accepted(parameters: dict[str, Any]) -> None:
    parse(tools=[tool(parameters=parameters, strict=True, description="d")])


RESULTS: list[tuple[list[dict[str, Any]], bool]] = [
    ([{"role": "assistant", "tool_calls": [CALL]}, RESULT], True),
    ([{"role": "assistant", "content": None, "tool_calls": [CALL]}, RESULT, *HI], True),
    ([{"role": "assistant", "tool_calls": [CALL, CALL | {"id": "b"}]}, RESULT | {"tool_call_id": "b"}, RESULT], True),
    ([{"role": "assistant", "tool_calls": [CALL]}, *HI, RESULT], False),
    ([{"role": "assistant", "tool_calls": [CALL]}, RESULT, *HI, RESULT], False),
    ([{"role": "assistant", "tool_calls": [CALL, CALL | {"id": "b"}]}, RESULT, *HI], False),
    ([{"role": "assistant", "tool_calls": []}], False),
]


@pytest.mark.parametrize(("messages", "fine"), RESULTS)
def test_tool_results_follow_their_calls(messages: list[dict[str, Any]], fine: bool) -> None:
    if fine:
        parse(messages=[*HI, *messages])
        return
    with pytest.raises(InvalidRequest):
        parse(messages=[*HI, *messages])


CHOICES: list[tuple[dict[str, Any], ToolChoice]] = [
    ({}, ToolChoice()),
    ({"tool_choice": "none"}, ToolChoice(mode=ToolMode.NONE)),
    ({"tool_choice": "required", "parallel_tool_calls": False}, ToolChoice(mode=ToolMode.REQUIRED, parallel=False)),
    ({"tool_choice": tool("g")}, ToolChoice(mode=ToolMode.REQUIRED, names=["g"], parallel=False)),
    ({"tool_choice": allowed("auto", "f")}, ToolChoice(names=["f"])),
    ({"tool_choice": allowed("required", "f", "g")}, ToolChoice(mode=ToolMode.REQUIRED, names=["f", "g"])),
]


@pytest.mark.parametrize(("fields", "choice"), CHOICES)
async def test_tools_and_tool_choice_reach_the_worker(
    set_stage: SetStage, fields: dict[str, Any], choice: ToolChoice
) -> None:
    stage = await set_stage()
    tools = [tool(parameters=CITY, strict=True, description="d"), tool("g")]
    response = await stage.chat(tools=tools, **fields)
    assert response.status_code == 200, response.text
    prompt = stage.worker.jobs[0].prompt
    assert isinstance(prompt, ChatPrompt)
    assert prompt.tool_choice == choice
    assert prompt.tools == [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": CITY, "strict": True}},
        {"type": "function", "function": {"name": "g", "parameters": {"type": "object", "properties": {}}}},
    ]


@pytest.mark.parametrize(
    ("function_call", "mode", "names"),
    [
        (None, ToolMode.AUTO, []),
        ("auto", ToolMode.AUTO, []),
        ("none", ToolMode.NONE, []),
        ({"name": "f"}, ToolMode.REQUIRED, ["f"]),
    ],
)
async def test_deprecated_functions_reach_the_worker_as_tools(
    set_stage: SetStage, function_call: Any, mode: ToolMode, names: list[str]
) -> None:
    stage = await set_stage()
    response = await stage.chat(functions=[{"name": "f", "parameters": CITY}], function_call=function_call)
    assert response.status_code == 200, response.text
    prompt = stage.worker.jobs[0].prompt
    assert isinstance(prompt, ChatPrompt)
    assert prompt.tools == [{"type": "function", "function": {"name": "f", "parameters": CITY}}]
    assert prompt.tool_choice == ToolChoice(mode=mode, names=names, parallel=False)


async def test_deprecated_calls_reach_the_worker_as_tool_calls(set_stage: SetStage) -> None:
    stage = await set_stage()
    response = await stage.client.post(
        "/v1/chat/completions",
        json={
            "model": MODEL,
            "messages": [
                *HI,
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                RESULT | {"content": [{"type": "text", "text": "sunny"}]},
                {"role": "assistant", "function_call": {"name": "g", "arguments": "{}"}},
                {"role": "function", "name": "g", "content": "42"},
                {"role": "assistant", "content": "so", "tool_calls": []},
            ],
        },
    )
    assert response.status_code == 200, response.text
    prompt = stage.worker.jobs[0].prompt
    assert isinstance(prompt, ChatPrompt)
    assert prompt.tools is None
    old = {"id": "call_g", "type": "function", "function": {"name": "g", "arguments": "{}"}}
    assert prompt.messages[1:] == [
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "sunny", "tool_call_id": "call_1"},
        {"role": "assistant", "content": "", "tool_calls": [old]},
        {"role": "tool", "name": "g", "content": "42", "tool_call_id": "call_g"},
        {"role": "assistant", "content": "so"},
    ]
