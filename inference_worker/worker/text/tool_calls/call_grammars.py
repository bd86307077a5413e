"""Builds grammars of tool calls in JSON: calls that are forced, or calls beside an answer in a response format.

They do not depend on the markup that the model was trained to write calls in.

    [{"name": "weather", "arguments": {"city": "Łódź"}}]        one call or more
    {"name": "weather", "arguments": {"city": "Łódź"}}          exactly one

Parameters without `additionalProperties` are narrowed to the named properties, or a weak model would invent further
ones without end. Arguments that match the narrower schema match the client's too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from inference_worker.errors import PromptRejected
from inference_worker.worker.text.tool_calls.call_rules import (
    SPACE,
    arguments_rules,
    call_rule,
    has_lark_text,
)
from router.messages import Grammar, GrammarKind

Schema = dict[str, Any]

MAX_CALLS = 128
"""Maximum calls of one answer, as many as a request's message may contain."""
_DATA = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data, so that a `$ref` in them is not a reference."""
_MAPS = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
"""Keywords whose values are objects of schemas."""
_IDENTITY = frozenset({"$schema", "$id"})
_OPEN = frozenset(
    {"additionalProperties", "patternProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "$ref"}
)
"""Keywords beside which `additionalProperties: false` must not be added."""


def calls_grammar(tools: Sequence[Mapping[str, Any]], *, parallel: bool) -> Grammar:
    """Build the grammar of one call of any of `tools` as a JSON object, or with `parallel` of a JSON list of calls.

    A call's arguments match the schema of its tool.
    """
    if any(map(has_lark_text, tools)):
        return _lark_grammar(tools, parallel=parallel)
    definitions: Schema = {}
    call = _call(tools, definitions)
    return _grammar(_list_of(call) if parallel else call, definitions, "tools")


def calls_or_response_grammar(tools: Sequence[Mapping[str, Any]], response: Grammar, *, parallel: bool) -> Grammar:
    """Build the grammar of either calls of `tools`, as `calls_grammar`, or text that matches the client's `response`.

    Raises:
        PromptRejected: `response` is not a grammar of JSON, or a tool has a grammar in Lark's notation.
    """
    if any(map(has_lark_text, tools)):
        message = f"'{response.param}' can't be combined with tools that have a grammar in Lark's notation"
        raise PromptRejected(f"{message}, unless 'tool_choice' is 'none' or 'required'.", response.param)
    definitions: Schema = {}
    call = _call(tools, definitions)
    definitions["response"] = _relocated(_response_schema(response), "#/$defs/response")
    choices = [{"$ref": "#/$defs/response"}, call, *([_list_of(call)] if parallel else [])]
    return _grammar({"anyOf": choices}, definitions, response.param)


def _response_schema(response: Grammar) -> Schema:
    if response.kind is GrammarKind.JSON_OBJECT:
        return {"type": "object"}
    if response.kind is GrammarKind.JSON_SCHEMA:
        schema: Schema = json.loads(response.source)
        return schema
    raise PromptRejected(
        f"'{response.param}' with anything but JSON can't be combined with 'tools', unless 'tool_choice' is 'none'.",
        response.param,
    )


def _call(tools: Sequence[Mapping[str, Any]], definitions: Schema) -> Schema:
    """Return the schema of one call; adds the schemas of the arguments to `definitions`."""
    choices = []
    for number, tool in enumerate(tools):
        name = f"tool{number}"
        parameters = {"type": "object", **tool["function"]["parameters"]}
        definitions[name] = _relocated(_closed(parameters), f"#/$defs/{name}")
        choices.append(
            {
                "type": "object",
                "properties": {
                    "name": {"const": tool["function"]["name"]},
                    "arguments": {"$ref": f"#/$defs/{name}"},
                },
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
        )
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


def _list_of(call: Schema) -> Schema:
    return {"type": "array", "items": call, "minItems": 1, "maxItems": MAX_CALLS}


def _grammar(schema: Schema, definitions: Schema, param: str) -> Grammar:
    source = json.dumps({**schema, "$defs": definitions}, ensure_ascii=False)
    return Grammar(kind=GrammarKind.JSON_SCHEMA, source=source, param=param)


def _lark_grammar(tools: Sequence[Mapping[str, Any]], *, parallel: bool) -> Grammar:
    """Return the grammar in Lark's notation of what `calls_grammar` describes."""
    functions = [tool["function"] for tool in tools]
    calls = " | ".join(call_rule(number, function, SPACE) for number, function in enumerate(functions))
    several = f"/{SPACE}\\[/ call (/{SPACE},/ call){{0,{MAX_CALLS - 1}}} /{SPACE}\\]/"
    start = several if parallel else "call"
    lines = [f"start: {start}", f"call: {calls}", *arguments_rules(functions, forced=True)]
    return Grammar(kind=GrammarKind.LARK, source="\n".join(lines), param="tools")


def _relocated(schema: Any, pointer: str) -> Any:
    """Return `schema` for use at JSON pointer `pointer` of another schema, with its references adjusted."""
    if isinstance(schema, list):
        return [_relocated(each, pointer) for each in schema]
    if not isinstance(schema, dict):
        return schema
    relocated = {keyword: _relocated_value(keyword, value, pointer) for keyword, value in schema.items()}
    return {keyword: value for keyword, value in relocated.items() if keyword not in _IDENTITY}


def _relocated_value(keyword: str, value: Any, pointer: str) -> Any:
    if keyword == "$ref" and isinstance(value, str) and value.startswith("#"):
        return pointer + value.removeprefix("#")
    if keyword in _MAPS and isinstance(value, dict):
        return {name: _relocated(each, pointer) for name, each in value.items()}
    return value if keyword in _DATA else _relocated(value, pointer)


def _closed(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    closed = dict(schema)
    properties = schema.get("properties")
    if isinstance(properties, dict):
        closed["properties"] = {name: _closed(each) for name, each in properties.items()}
        if not _OPEN & schema.keys() and set(schema.get("required", ())) <= properties.keys():
            closed["additionalProperties"] = False
    if isinstance(schema.get("items"), dict):
        closed["items"] = _closed(schema["items"])
    return closed
