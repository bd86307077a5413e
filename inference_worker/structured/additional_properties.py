"""Adds `additionalProperties: false` to a client's JSON schema where an object does not mention further properties.

A model that may add keys does so until its tokens are used up, and output without them matches the schema too. vLLM
with xgrammar does the same. Schemas composed of several parts (`allOf` and the like) stay unchanged, because a
property that one part does not name may belong to another part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

_COMPOSING = ("$ref", "anyOf", "oneOf", "if", "dependentSchemas")
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "additionalItems", "contains", "not", "if", "then", "else", "propertyNames")


def forbid_additional_properties(schema: Schema) -> Schema:
    """Return a copy of a client's JSON schema with `additionalProperties: false` in its objects that do not mention it.

    A schema that is composed of several (`allOf` and the like) is returned unchanged.
    """
    return _closed(schema) if not any(map(_composed, _all(schema))) else schema


def _composed(schema: Schema) -> bool:
    return "allOf" in schema or ("properties" in schema and any(keyword in schema for keyword in _COMPOSING))


def _all(schema: Any) -> Iterator[Schema]:
    if isinstance(schema, dict):
        yield schema
        for part in _parts(schema):
            yield from _all(part)


def _parts(schema: Schema) -> Iterator[Any]:
    for keyword in _BY_NAME:
        if isinstance(named := schema.get(keyword), dict):
            yield from named.values()
    for keyword in _LISTS:
        if isinstance(listed := schema.get(keyword), list):
            yield from listed
    for keyword in _SINGLE:
        yield schema.get(keyword)


def _closed(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    inside: Schema = dict(schema)
    for keyword in _BY_NAME:
        if isinstance(named := schema.get(keyword), dict):
            inside[keyword] = {name: _closed(part) for name, part in named.items()}
    for keyword in _LISTS:
        if isinstance(listed := schema.get(keyword), list):
            inside[keyword] = [_closed(part) for part in listed]
    for keyword in _SINGLE:
        if keyword in schema:
            inside[keyword] = _closed(schema[keyword])
    return inside | {"additionalProperties": False} if _may_close(schema) else inside


def _may_close(schema: Schema) -> bool:
    named = schema.get("properties")
    if not isinstance(named, dict) or not named or "minProperties" in schema:
        return False
    keywords = ("additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames")
    required = schema.get("required", [])
    return (
        not any(keyword in schema for keyword in keywords)
        and isinstance(required, list)
        and set(required) <= named.keys()
    )
