from __future__ import annotations

from typing import Any

import pytest

from inference_worker.structured.additional_properties import forbid_additional_properties

NAMED = {"properties": {"a": {"type": "string"}}}
CLOSED = {**NAMED, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (NAMED, CLOSED),
        ({**NAMED, "required": ["a"]}, {**CLOSED, "required": ["a"]}),
        ({"properties": {"b": NAMED}}, {"properties": {"b": CLOSED}, "additionalProperties": False}),
        ({"items": NAMED}, {"items": CLOSED}),
        ({"anyOf": [NAMED, {"type": "null"}]}, {"anyOf": [CLOSED, {"type": "null"}]}),
        ({"$defs": {"n": NAMED}, "$ref": "#/$defs/n"}, {"$defs": {"n": CLOSED}, "$ref": "#/$defs/n"}),
    ],
)
def test_objects_with_named_properties_are_closed(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert forbid_additional_properties(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {}},
        {**NAMED, "additionalProperties": True},
        {**NAMED, "additionalProperties": {"type": "integer"}},
        {**NAMED, "patternProperties": {"^x": {}}},
        {**NAMED, "required": ["a", "not_named"]},
        {**NAMED, "minProperties": 2},
        {"allOf": [NAMED, {"properties": {"b": {}}}]},
        {**NAMED, "anyOf": [{"properties": {"b": {}}}]},
        {"properties": {"n": {**NAMED, "$ref": "#/$defs/n"}}, "$defs": {"n": {"properties": {"b": {}}}}},
        {"const": NAMED},
        {"enum": [NAMED]},
        {"properties": {"allOf": {"type": "string"}}, "additionalProperties": True},
    ],
)
def test_composed_schemas_and_explicit_additional_properties_stay_unchanged(schema: dict[str, Any]) -> None:
    assert forbid_additional_properties(schema) == schema


def test_a_property_may_be_named_like_a_keyword() -> None:
    assert forbid_additional_properties({"properties": {"allOf": {}}}) == {
        "properties": {"allOf": {}},
        "additionalProperties": False,
    }
