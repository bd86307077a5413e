"""Schemas of tool arguments: references expanded within bounds, no regular expressions, nothing fetched."""

from __future__ import annotations

from typing import Any

import pytest

from assistant.tools.argument_schema import ArgumentSchema, SchemaRefused
from assistant.tools.tool import InvalidArguments

CITY = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def test_references_are_followed() -> None:
    schema = ArgumentSchema({"type": "object", "properties": {"to": {"$ref": "#/$defs/City"}}, "$defs": {"City": CITY}})
    schema.check("route", {"to": {"name": "Lądek"}})
    with pytest.raises(InvalidArguments, match="to: 'name' is a required property"):
        schema.check("route", {"to": {}})


def test_recursive_schemas_end() -> None:
    schema = ArgumentSchema({"type": "object", "properties": {"below": {"$ref": "#"}}})
    schema.check("tree", {"below": {"below": {}}})
    with pytest.raises(InvalidArguments):
        schema.check("tree", {"below": 1})


def test_properties_may_be_named_like_keywords() -> None:
    schema = ArgumentSchema({"properties": {"pattern": {"type": "string"}, "format": {"type": "string"}}})
    with pytest.raises(InvalidArguments):
        schema.check("grep", {"pattern": 1})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://example.com/schema"},
        {"$ref": "#/$defs/missing"},
        {"type": "no such type"},
        {"properties": {str(number): {} for number in range(3000)}},
        {"enum": list(range(3000))},
        {"$ref": "#/$defs/a0", "$defs": {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}},
        {"not": {"not": {}}} | {"allOf": [{"anyOf": [{}]}] * 1500},
    ],
)
def test_refused_schemas(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaRefused):
        ArgumentSchema(schema)


def test_deep_schemas_are_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"not": schema}
    with pytest.raises(SchemaRefused):
        ArgumentSchema(schema)


@pytest.mark.parametrize(
    "schema", [{"properties": {"a": {"pattern": "^(a+)+$"}}}, {"patternProperties": {"^(a+)+$": {}}, "type": "object"}]
)
def test_regular_expressions_cost_nothing(schema: dict[str, Any]) -> None:
    ArgumentSchema(schema).check("slow", {"a": "a" * 40 + "!", "a" * 40 + "!": 1})  # neither matches its expression


@pytest.mark.parametrize(
    ("arguments", "field"), [({}, "to"), ({"to": {}}, "to"), ({"to": {"name": 1}}, "to.name"), ({"to": 1}, "to")]
)
def test_an_error_names_the_argument(arguments: dict[str, Any], field: str) -> None:
    schema = ArgumentSchema({"type": "object", "properties": {"to": CITY}, "required": ["to"]})
    with pytest.raises(InvalidArguments) as refused:
        schema.check("route", arguments)
    assert refused.value.field == field
