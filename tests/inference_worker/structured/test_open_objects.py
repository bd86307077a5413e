from __future__ import annotations

from typing import Any

import pytest

from inference_worker.structured.open_objects import closed

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
def test_objects_that_name_their_properties_have_no_others(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert closed(schema) == expected


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
def test_what_says_otherwise_or_is_made_of_parts_stays_as_it_is(schema: dict[str, Any]) -> None:
    assert closed(schema) == schema


def test_a_property_may_have_a_keyword_for_its_name() -> None:
    assert closed({"properties": {"allOf": {}}}) == {"properties": {"allOf": {}}, "additionalProperties": False}
