"""Checks of clients' JSON schemas: size, well-formedness and references."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

import pytest
from pydantic_core import PydanticCustomError

from gateway.openai.json_schema import MAX_DEPTH, MAX_ENUM, MAX_PATTERN, MAX_VALUES, check_pattern, check_schema


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


FINE: list[dict[str, Any]] = [
    {},
    {"type": ["string", "null"], "minLength": 0, "x-unknown": 1},
    {"$defs": {"a/b": {"type": "integer"}}, "$ref": "#/$defs/a~1b"},
    {"properties": {"next": {"$ref": "#"}}},
    {"anyOf": [True, {"enum": [1]}], "items": [{"type": "null"}], "not": False},
    nested(MAX_DEPTH - 2),
    {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/c"}, "c": {}}, "items": {"$ref": "#/$defs/a"}},
]


@pytest.mark.parametrize("schema", FINE)
def test_well_formed_schemas_are_returned_unchanged(schema: dict[str, Any]) -> None:
    assert check_schema(schema) is schema


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"type": "text"}, "schema.type"),
        ({"items": 3}, "schema.items"),
        ({"anyOf": []}, "schema.anyOf"),
        ({"properties": {"a": {"minimum": "1"}}}, "schema.properties.a.minimum"),
        ({"multipleOf": 0}, "schema.multipleOf"),
        ({"$ref": "https://example.org/schema"}, "schema.$ref"),
        ({"$ref": "#/$defs/missing"}, "schema.$ref"),
        ({"$defs": {"a": {"$ref": "#/$defs/a"}}}, "schema.$defs.a.$ref"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "schema.$defs.a.$ref"),
        ({"$defs": {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(40)} | {"d40": {}}}, ANY),
    ],
)
def test_malformed_schemas_are_refused_with_their_place(schema: dict[str, Any], where: str) -> None:
    with pytest.raises(PydanticCustomError) as caught:
        check_schema(schema)
    assert (caught.value.context or {})["where"] == where


@pytest.mark.parametrize(
    "schema",
    [nested(MAX_DEPTH), {"enum": list(range(MAX_ENUM + 1))}, {"examples": [0] * MAX_VALUES}, {"title": "x" * 200_000}],
)
def test_oversized_schemas_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(PydanticCustomError):
        check_schema(schema)


@pytest.mark.parametrize("pattern", ["(a+)+", "(?:a*)*", "([ab]+){2,}", r"(\w*)*", "", "x" * (MAX_PATTERN + 1)])
def test_dangerous_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(PydanticCustomError):
        check_pattern(pattern)


@pytest.mark.parametrize("pattern", ["^[a-z]+$", "(ab)+", "a{2,3}", r"\(a+\)+", "[(a+)+]"])
def test_ordinary_patterns_are_accepted(pattern: str) -> None:
    assert check_pattern(pattern) == pattern
