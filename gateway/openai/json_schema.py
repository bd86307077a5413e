"""Checks clients' JSON schemas and patterns (drafts 6 to 2020-12) for form and size before workers compile them.

Whether a schema can be compiled to a grammar is decided by the worker. Every check takes time linear in the schema's
size, which is bounded: each reference is resolved once, no reference is fetched, and no pattern is executed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic_core import PydanticCustomError

MAX_BYTES = 128 * 1024
MAX_DEPTH = 48
MAX_VALUES = 10_000
"""Maximum number of objects, arrays and scalars in a schema."""
MAX_ENUM = 1_000
"""Maximum number of values of all `enum`s of a schema, as OpenAI limits it."""
MAX_COUNT = 100_000
"""Largest value of `minItems`, `maxLength` and the other counting keywords."""
MAX_PATTERN = 2_048
"""Maximum length of a regular expression in characters."""
MAX_REFERENCE_HOPS = 32
"""Maximum number of `$ref`s that lead from one to the next."""
MAX_PLACE = 100
"""Maximum length of a path in an error message in characters."""

_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_SCHEMA_KEYWORDS = frozenset(
    {"additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
_SCHEMA_LIST_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMA_MAP_KEYWORDS = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})

_ATOM = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]?", re.DOTALL)
"""An escape or a class, which may be unclosed: a search that backs out of one would take quadratic time."""
_NESTED_REPETITION = re.compile(r"\((?:\?:)?[^()|](?:[+*]|\{\d+,\d*\})\??\)(?:[+*]|\{\d+,\})")


def check_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` unchanged if it is a supported JSON schema within the size limits, which workers may compile.

    Raises:
        PydanticCustomError: `schema` is not a JSON schema, is too large, or refers to something outside itself.
    """
    if _count_values(schema, 1) > MAX_VALUES or len(json.dumps(schema)) > MAX_BYTES:
        raise _error(f"a schema may have at most {MAX_VALUES} values and {MAX_BYTES} bytes")
    enums, hops = 0, dict[str, int]()
    for each, where in _subschemas(schema, "schema"):
        for keyword, value in each.items():
            _check(keyword, value, _inside(where, keyword))
        enums += len(each.get("enum", ()))
        if "$ref" in each:
            _check_reference(schema, each["$ref"], _inside(where, "$ref"), hops)
    if enums > MAX_ENUM:
        raise _error(f"a schema may have at most {MAX_ENUM} enum values")
    return schema


def check_pattern(pattern: str) -> str:
    """Return `pattern` if its length is in bounds and it has no nested repetition such as `(a+)+`.

    Such patterns are safe in a worker, whose automata do not backtrack, but not in a client that validates the answer
    against the same schema with a backtracking engine.

    Raises:
        PydanticCustomError: The pattern is empty, too long, or has nested repetition.
    """
    if not 1 <= len(pattern) <= MAX_PATTERN:
        raise _error(f"a regular expression must have 1 to {MAX_PATTERN} characters")
    if _NESTED_REPETITION.search(_ATOM.sub("a", pattern)):
        raise _error("a regular expression repeats nothing but a repetition, such as (a+)+")
    return pattern


def _count_values(value: Any, depth: int) -> int:
    if depth > MAX_DEPTH:
        raise _error(f"a schema may be nested at most {MAX_DEPTH} levels deep")
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(_count_values(each, depth + 1) for each in inside)


def _subschemas(schema: Any, where: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Iterate over a schema and its subschemas, each with its path; boolean schemas are skipped."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise _invalid_schema(where)
    yield schema, where
    for keyword, value in schema.items():
        at = _inside(where, keyword)
        if keyword in _SCHEMA_KEYWORDS and not isinstance(value, list):
            yield from _subschemas(value, at)
        elif keyword in _SCHEMA_LIST_KEYWORDS or keyword == "items":
            if not isinstance(value, list) or (keyword in _SCHEMA_LIST_KEYWORDS and not value):
                raise _invalid_schema(at)
            for index, each in enumerate(value):
                yield from _subschemas(each, f"{at}[{index}]"[:MAX_PLACE])
        elif keyword in _SCHEMA_MAP_KEYWORDS:
            if not isinstance(value, dict):
                raise _invalid_schema(at)
            for name, each in value.items():
                yield from _subschemas(each, _inside(at, name))


def _inside(where: str, name: str) -> str:
    return f"{where}.{name[:MAX_PLACE]}"[:MAX_PLACE]


def _check(keyword: str, value: Any, where: str) -> None:
    """Check the value of a keyword whose value is not a schema."""
    if keyword == "pattern" and isinstance(value, str):
        check_pattern(value)
    elif keyword == "patternProperties":
        for pattern in value:
            check_pattern(pattern)
    elif not _is_valid(keyword, value):
        raise _invalid_schema(where)


def _is_valid(keyword: str, value: Any) -> bool:
    """Return whether a keyword's value has the right type; unknown keywords may have any value."""
    return keyword not in _VALUE_CHECKS or _VALUE_CHECKS[keyword](value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_type(value: Any) -> bool:
    kinds = value if isinstance(value, list) and value else [value]
    return all(isinstance(kind, str) and kind in _TYPES for kind in kinds)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_VALUE_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "type": _is_type,
    "enum": lambda value: isinstance(value, list) and bool(value),
    "required": lambda value: isinstance(value, list) and all(map(_is_text, value)),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "uniqueItems": lambda value: isinstance(value, bool),
    **dict.fromkeys(("maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"), _is_count),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"), _is_number),
    **dict.fromkeys(("$comment", "$id", "$ref", "$schema", "description", "format", "pattern", "title"), _is_text),
}


def _check_reference(root: dict[str, Any], reference: Any, where: str, hops: dict[str, int]) -> None:
    """Check that a `$ref` resolves within `root` and that its chain of references ends.

    `hops` has the chain length of each reference that was checked before, and gets those of this chain.
    """
    chain: dict[str, None] = {}
    while isinstance(reference, str) and reference not in hops:
        if reference in chain:
            raise _error("a $ref leads back to itself: look at '{where}'", where)
        chain[reference] = None
        target = _resolve(root, reference, where)
        reference = target.get("$ref") if isinstance(target, dict) else None
    known = hops[reference] if isinstance(reference, str) else 0
    hops.update((each, known + number) for number, each in enumerate(reversed(chain), 1))
    if known + len(chain) > MAX_REFERENCE_HOPS:
        raise _error(f"more than {MAX_REFERENCE_HOPS} $refs lead from one to the next: look at '{{where}}'", where)


def _resolve(root: Any, reference: str, where: str) -> Any:
    if reference != "#" and not reference.startswith("#/"):
        raise _error("a $ref must lead into the schema itself, as '#/$defs/name' does: look at '{where}'", where)
    target = root
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and name.isdecimal() and len(name) < 6 and int(name) < len(target):
            target = target[int(name)]
        elif isinstance(target, dict) and name in target:
            target = target[name]
        else:
            raise _error("a $ref leads nowhere: look at '{where}'", where)
    return target


def _invalid_schema(where: str) -> PydanticCustomError:
    return _error("not a valid JSON schema: look at '{where}'", where)


def _error(message: str, where: str = "") -> PydanticCustomError:
    return PydanticCustomError("invalid_value", message, {"where": where})
