"""JSON schemas from clients: their shape and size, checked before anything is made of them.

Drafts 6 to 2020-12. Whether a grammar can be made of a schema is found out by a worker. Every check here is one walk
over a schema of bounded size; nothing is fetched, and no pattern is run.
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
"""Objects, arrays and plain values of a schema together."""
MAX_ENUM = 1_000
"""Values of all `enum`s together, as OpenAI has it."""
MAX_COUNT = 100_000
"""Of what `minItems`, `maxLength` and their like may say."""
MAX_PATTERN = 2_048
"""Characters of a regular expression."""

_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_ONE = frozenset(
    {"additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAPS = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})

_ATOM = r"(?:\\.|\[(?:\\.|[^\]\\])*\]|[^()\[\]\\|])"
_NESTED = re.compile(rf"\((?:\?:)?{_ATOM}(?:[+*]|\{{\d+,\d*\}})\??\)(?:[+*]|\{{\d+,\}})")


def check_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema`, if it may be handed to a worker.

    Raises:
        PydanticCustomError: it is no schema, is too large, or refers to what is not in it.
    """
    if _values(schema, 1) > MAX_VALUES or len(json.dumps(schema)) > MAX_BYTES:
        raise _wrong(f"a schema may have at most {MAX_VALUES} values and {MAX_BYTES} bytes")
    enums = 0
    for each, where in _schemas(schema, "schema"):
        for keyword, value in each.items():
            _check(keyword, value, f"{where}.{keyword}")
        enums += len(each.get("enum", ()))
        if "$ref" in each:
            _follow(schema, each["$ref"], f"{where}.$ref")
    if enums > MAX_ENUM:
        raise _wrong(f"a schema may have at most {MAX_ENUM} enum values")
    return schema


def check_pattern(pattern: str) -> str:
    """`pattern`, if its length is in bounds and it is no classic trap such as `(a+)+`.

    It can't hurt us (our automata do not backtrack), but whoever checks the answer against the same schema.

    Raises:
        PydanticCustomError: it is not.
    """
    if not 1 <= len(pattern) <= MAX_PATTERN:
        raise _wrong(f"a regular expression must have 1 to {MAX_PATTERN} characters")
    if _NESTED.search(pattern):
        raise _wrong("a regular expression repeats nothing but a repetition, such as (a+)+")
    return pattern


def _values(value: Any, depth: int) -> int:
    if depth > MAX_DEPTH:
        raise _wrong(f"a schema may be nested at most {MAX_DEPTH} levels deep")
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(_values(each, depth + 1) for each in inside)


def _schemas(schema: Any, where: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Every schema that is an object, and the way to it."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise _no_schema(where)
    yield schema, where
    for keyword, value in schema.items():
        at = f"{where}.{keyword}"
        if keyword in _ONE and not isinstance(value, list):
            yield from _schemas(value, at)
        elif keyword in _LISTS or keyword == "items":
            if not isinstance(value, list) or (keyword in _LISTS and not value):
                raise _no_schema(at)
            for index, each in enumerate(value):
                yield from _schemas(each, f"{at}[{index}]")
        elif keyword in _MAPS:
            if not isinstance(value, dict):
                raise _no_schema(at)
            for name, each in value.items():
                yield from _schemas(each, f"{at}.{name}")


def _check(keyword: str, value: Any, where: str) -> None:
    """One keyword that is no schema itself."""
    if keyword == "pattern" and isinstance(value, str):
        check_pattern(value)
    elif keyword == "patternProperties":
        for pattern in value:
            check_pattern(pattern)
    elif not _fits(keyword, value):
        raise _no_schema(where)


def _fits(keyword: str, value: Any) -> bool:
    """Whether a keyword has a value of its kind; keywords that we do not know have any."""
    return keyword not in _KINDS or _KINDS[keyword](value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_type(value: Any) -> bool:
    kinds = value if isinstance(value, list) and value else [value]
    return all(isinstance(kind, str) and kind in _TYPES for kind in kinds)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "type": _is_type,
    "enum": lambda value: isinstance(value, list) and bool(value),
    "required": lambda value: isinstance(value, list) and all(map(_is_text, value)),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "uniqueItems": lambda value: isinstance(value, bool),
    **dict.fromkeys(("maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"), _is_count),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"), _is_number),
    **dict.fromkeys(("$comment", "$id", "$ref", "$schema", "description", "format", "pattern", "title"), _is_text),
}


def _follow(root: dict[str, Any], reference: Any, where: str) -> None:
    """A reference must lead, within this schema, to something that is not only a reference back."""
    seen: set[str] = set()
    while isinstance(reference, str):
        if reference in seen:
            raise _wrong("a $ref leads back to itself: look at '{where}'", where)
        seen.add(reference)
        target = _target(root, reference, where)
        reference = target.get("$ref") if isinstance(target, dict) else None


def _target(root: Any, reference: str, where: str) -> Any:
    if reference != "#" and not reference.startswith("#/"):
        raise _wrong("a $ref must lead into the schema itself, as '#/$defs/name' does: look at '{where}'", where)
    target = root
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and name.isdecimal() and len(name) < 6 and int(name) < len(target):
            target = target[int(name)]
        elif isinstance(target, dict) and name in target:
            target = target[name]
        else:
            raise _wrong("a $ref leads nowhere: look at '{where}'", where)
    return target


def _no_schema(where: str) -> PydanticCustomError:
    return _wrong("not a valid JSON schema: look at '{where}'", where)


def _wrong(message: str, where: str = "") -> PydanticCustomError:
    return PydanticCustomError("invalid_value", message, {"where": where[:100]})
