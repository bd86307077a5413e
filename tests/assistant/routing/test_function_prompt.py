"""What models read to choose: functions and examples."""

from __future__ import annotations

import json
from unittest.mock import AsyncMock

import jsonschema
import mcp_types
import pytest

from assistant.mcp.definition import definition
from assistant.mcp.tool import McpTool
from assistant.routing.function_prompt import (
    by_function_name,
    choice_grammar,
    choice_messages,
    function_name,
    function_names,
    offered_functions,
)
from tests.fakes.assistant import NamedTool, named_tools

TOOLS = by_function_name(named_tools())


@pytest.mark.parametrize(
    ("tool", "name"), [("web_page", "web_page"), ("mcp.a.b-c", "mcp_a_b-c"), ("zażółć", "za____"), ("x" * 99, "x" * 64)]
)
def test_function_names(tool: str, name: str) -> None:
    assert function_name(tool) == name


def test_tools_with_one_function_name() -> None:
    tools = by_function_name([NamedTool("a_b", "second"), NamedTool("a.b", "first")])
    assert {name: tool.name for name, tool in tools.items()} == {"a_b": "a.b"}


def test_the_default_function_is_last() -> None:
    assert function_names(offered_functions(TOOLS)) == [*TOOLS, "answer_directly"]


def test_the_clients_functions_are_first_and_in_place_of_the_default_function() -> None:
    bark = {"type": "function", "function": {"name": "bark", "parameters": {}}}
    assert function_names(offered_functions(TOOLS, [bark])) == ["bark", *TOOLS]


def test_examples_match_the_grammar() -> None:
    schema = json.loads(choice_grammar(TOOLS, with_arguments=True).source)
    answers = [
        each["content"] for each in choice_messages("q", TOOLS, with_arguments=True) if each["role"] == "assistant"
    ]
    assert len(answers) == 6
    lacking = 0
    for answer in answers:
        try:
            jsonschema.validate(json.loads(answer), schema)
        except jsonschema.ValidationError:
            lacking += 1
    assert lacking == 1  # of mathematics, whose fake lacks the operation


def test_references_in_a_tools_schema_are_followed_in_the_grammar() -> None:
    place = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    parameters = {"type": "object", "properties": {"to": {"$ref": "#/$defs/Place"}}, "$defs": {"Place": place}}
    described = definition(mcp_types.Tool(name="book", description="Books.", input_schema=parameters))
    tools = by_function_name([McpTool("travel", described, True, 5.0, AsyncMock())])
    schema = json.loads(choice_grammar(tools, with_arguments=True).source)
    choice = {"tool": "mcp_travel_book", "arguments": {"to": {"city": "Łódź"}}}
    jsonschema.validate(choice, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(choice | {"arguments": {"to": {}}}, schema)


def test_examples_of_tools_that_are_off_are_left_out() -> None:
    messages = choice_messages("q", {}, with_arguments=False)
    assert [each["content"] for each in messages if each["role"] == "assistant"] == ["none"]
