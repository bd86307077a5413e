"""Grammars that make a model call tools: JSON that any model can be held to, whatever markup it was trained with.

    [{"name": "weather", "arguments": {"city": "Łódź"}}]        one call or more
    {"name": "weather", "arguments": {"city": "Łódź"}}          exactly one

A function's parameters are narrowed to what they name: an object that does not speak of additional properties gets
none, or a weak model would make them up without end. What matches the narrower schema matches the client's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from inference_worker.worker.text.errors import PromptRejected
from router.messages import FailureCode, Grammar, GrammarKind

Schema = dict[str, Any]

MAX_CALLS = 128
"""As many as a message may bring back."""
_DATA = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are no schemas: a `$ref` in them is a word like any other."""
_MAPS = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
"""Keywords whose values are schemas by name."""
_IDENTITY = frozenset({"$schema", "$id"})
_OPEN = frozenset(
    {"additionalProperties", "patternProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "$ref"}
)
"""Keywords beside which nothing can be said of additional properties."""


def calls_grammar(tools: Sequence[Mapping[str, Any]], *, parallel: bool) -> Grammar:
    """Makes the whole output calls of these tools: one, or several if `parallel`."""
    definitions: Schema = {}
    one = _call(tools, definitions)
    return _grammar(_list_of(one) if parallel else one, definitions, "tools")


def calls_or_response_grammar(tools: Sequence[Mapping[str, Any]], response: Grammar, *, parallel: bool) -> Grammar:
    """Makes the whole output calls of these tools, or else what `response` asks for.

    Raises:
        PromptRejected: it asks for something that is not JSON.
    """
    definitions: Schema = {}
    one = _call(tools, definitions)
    definitions["response"] = _moved(_response_schema(response), "#/$defs/response")
    choices = [{"$ref": "#/$defs/response"}, one, *([_list_of(one)] if parallel else [])]
    return _grammar({"anyOf": choices}, definitions, response.param)


def _response_schema(response: Grammar) -> Schema:
    if response.kind is GrammarKind.JSON_OBJECT:
        return {"type": "object"}
    if response.kind is GrammarKind.JSON_SCHEMA:
        schema: Schema = json.loads(response.source)
        return schema
    raise PromptRejected(
        FailureCode.INVALID_PARAMETER,
        f"'{response.param}' with anything but JSON can't be combined with 'tools', unless 'tool_choice' is 'none'.",
        response.param,
    )


def _call(tools: Sequence[Mapping[str, Any]], definitions: Schema) -> Schema:
    """The schema of one call, whose arguments are put into `definitions`."""
    choices = []
    for number, tool in enumerate(tools):
        place = f"tool{number}"
        parameters = {"type": "object", **tool["function"]["parameters"]}
        definitions[place] = _moved(_closed(parameters), f"#/$defs/{place}")
        choices.append(
            {
                "type": "object",
                "properties": {
                    "name": {"const": tool["function"]["name"]},
                    "arguments": {"$ref": f"#/$defs/{place}"},
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


def _moved(schema: Any, place: str) -> Any:
    """A schema that stands at `place` of another: what it refers to has moved with it."""
    if isinstance(schema, list):
        return [_moved(each, place) for each in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {keyword: _moved_value(keyword, value, place) for keyword, value in schema.items()}
    return {keyword: value for keyword, value in moved.items() if keyword not in _IDENTITY}


def _moved_value(keyword: str, value: Any, place: str) -> Any:
    if keyword == "$ref" and isinstance(value, str) and value.startswith("#"):
        return place + value.removeprefix("#")
    if keyword in _MAPS and isinstance(value, dict):
        return {name: _moved(each, place) for name, each in value.items()}
    return value if keyword in _DATA else _moved(value, place)


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
