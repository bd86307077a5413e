"""The grammar of forced calls accepts exactly the valid calls, also with references in the tools' schemas."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from inference_worker.errors import PromptRejected
from inference_worker.worker.text.tool_calls.tool_choice import output_grammar
from inference_worker.worker.text.tool_calls.tool_style import MarkupFamily, ToolStyle
from router.messages import ChatPrompt, Grammar, GrammarKind, TextPrompt, ToolChoice, ToolMode

LIST: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "properties": {
        "value": {"$ref": "#/$defs/enum"},
        "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
        "$id": {"const": {"$ref": "#"}},
    },
    "required": ["value"],
    "$defs": {"enum": {"type": "integer"}},
}


def tool(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [
    tool("f", {"type": "object", "properties": {}}),
    tool("city", {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}),
    tool("list", LIST),
]
STYLE = ToolStyle(MarkupFamily.HERMES, in_template=True)
RESPONSE = Grammar(
    kind=GrammarKind.JSON_SCHEMA,
    source=json.dumps(
        {
            "type": "object",
            "properties": {"n": {"$ref": "#/$defs/N"}},
            "required": ["n"],
            "$defs": {"N": {"type": "integer"}},
        }
    ),
)


def grammar(response: Grammar | None = None, **choice: Any) -> Grammar | None:
    return output_grammar(ChatPrompt(messages=[], tools=TOOLS, tool_choice=ToolChoice(**choice)), response, STYLE, {})


def takes(of: Grammar | None, value: Any) -> bool:
    assert of is not None
    assert of.kind is GrammarKind.JSON_SCHEMA
    return jsonschema.Draft202012Validator(json.loads(of.source)).is_valid(value)


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


F = call("f", {})
GOOD = [F, call("city", {"name": "Łódź"}), call("list", {"value": 1, "next": {"value": 2, "next": None}})]
BAD: list[Any] = [
    call("g", {}),
    call("f", {"a": 1}),
    call("f", []),
    call("city", {}),
    call("city", {"name": "x", "country": "y"}),
    call("list", {"value": "x"}),
    call("list", {"value": 1, "next": {"value": "x"}}),
    call("list", {"value": 1, "$id": {}}),
    F | {"id": "x"},
    {"name": "f"},
    [],
    {},
]


@pytest.mark.parametrize("good", GOOD)
def test_valid_calls(good: Any) -> None:
    several = grammar(mode=ToolMode.REQUIRED)
    assert takes(several, [good])
    assert takes(several, [good, F])
    assert not takes(several, good)
    one = grammar(mode=ToolMode.REQUIRED, parallel=False)
    assert takes(one, good)
    assert not takes(one, [good])


@pytest.mark.parametrize("bad", BAD)
def test_invalid_calls(bad: Any) -> None:
    assert not takes(grammar(mode=ToolMode.REQUIRED, parallel=False), bad)
    assert not takes(grammar(mode=ToolMode.REQUIRED), [bad])
    assert not takes(grammar(mode=ToolMode.REQUIRED), [])


def test_only_allowed_tools() -> None:
    named = grammar(mode=ToolMode.REQUIRED, names=["city"], parallel=False)
    assert takes(named, GOOD[1])
    assert not takes(named, F)


def test_a_response_or_calls() -> None:
    either = grammar(RESPONSE)
    for fits in ({"n": 1}, F, [F, F]):
        assert takes(either, fits)
    for other in ({"n": "x"}, [], [1], {"name": "g", "arguments": {}}):
        assert not takes(either, other)
    assert not takes(grammar(RESPONSE, parallel=False), [F])
    assert takes(grammar(Grammar(kind=GrammarKind.JSON_OBJECT)), {"any": "thing"})


def test_without_tools_the_response_s_grammar_is_used() -> None:
    assert grammar(RESPONSE, mode=ToolMode.NONE) is RESPONSE
    assert grammar() is None
    assert output_grammar(TextPrompt("x"), RESPONSE, STYLE, {}) is RESPONSE
    assert output_grammar(ChatPrompt(messages=[]), RESPONSE, STYLE, {}) is RESPONSE


def test_tools_and_a_non_json_grammar_are_rejected() -> None:
    of = Grammar(kind=GrammarKind.REGEX, source="a+", param="structured_outputs")
    with pytest.raises(PromptRejected) as caught:
        grammar(of)
    assert caught.value.param == "structured_outputs"
    assert takes(grammar(of, mode=ToolMode.REQUIRED), [F])
