"""Checks tool arguments by JSON schemas, bounded and without references, so that an MCP server's can't cost time.

References are expanded when a tool is added, and regular expressions are left out: both could make a check take
exponential time. A tool still validates what only its own code can.
"""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator, SchemaError, ValidationError
from referencing import Registry

from assistant.tools.sentences import WRONG_ARGUMENTS
from assistant.tools.tool import InvalidArguments

MAX_NODES = 2_000
"""Objects, arrays and values of a schema after the expansion of its references."""
MAX_DEPTH = 32
_DROPPED = frozenset({
    "$anchor", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$schema", "$vocabulary", "definitions", "format",
    "pattern", "patternProperties", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
"""Keywords without meaning after the expansion, or with regular expressions."""
_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keywords with plain values instead of schemas."""


class SchemaRefused(Exception):
    """Raised for a schema that is invalid, too large, or refers to something outside itself."""


class ArgumentSchema:
    """A bounded JSON schema that checks the arguments of one tool."""

    def __init__(self, schema: dict[str, Any]) -> None:
        """Expand and check a schema.

        Raises:
            SchemaRefused: the schema is invalid, too large, or has outside references.
        """
        expanded = without_references(schema)
        try:
            Draft202012Validator.check_schema(expanded)
        except (SchemaError, RecursionError) as error:
            raise SchemaRefused(f"the schema is invalid: {error}") from error
        self._validator = Draft202012Validator(expanded, registry=Registry())

    def check(self, tool: str, arguments: dict[str, Any]) -> None:
        """Check the arguments of a call of the tool named `tool` by its schema.

        Raises:
            InvalidArguments: the arguments do not match.
        """
        for error in self._validator.iter_errors(arguments):
            path = ".".join(str(each) for each in error.absolute_path)
            problem = f"{path}: {error.message}" if path else error.message
            raise InvalidArguments(WRONG_ARGUMENTS, field=path or _missing(error), tool=tool, problem=problem)


def without_references(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a JSON schema with references expanded and without regular expressions and formats.

    The copy can be a part of another schema. It may accept more: a reference within itself accepts everything.

    Raises:
        SchemaRefused: the schema is too large, or a reference leads outside or nowhere.
    """
    expanded: dict[str, Any] = _Expansion(schema).schema(schema, ())
    return expanded


def _missing(error: ValidationError) -> str:
    """Return the first argument that is required and missing; "" if the error is another one."""
    names = error.validator_value
    if error.validator != "required" or not isinstance(names, list) or not isinstance(error.instance, dict):
        return ""
    return next((str(name) for name in names if name not in error.instance), "")


class _Expansion:
    """Copies a schema without references; counts what it copies."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._left = MAX_NODES

    def schema(self, node: Any, open_references: tuple[str, ...]) -> Any:
        """Return a copy of the schema `node` without references; a reference within itself accepts everything.

        `open_references` are the references that are being expanded.

        Raises:
            SchemaRefused: the schema is too large, or has outside references.
        """
        self._count(node, len(open_references))
        if isinstance(node, list):
            return [self.schema(each, (*open_references, "")) for each in node]
        if not isinstance(node, dict):
            return node
        reference = node.get("$ref")
        if isinstance(reference, str):
            if reference in open_references:
                return {}
            node = {**self._target(reference), **{name: node[name] for name in node if name != "$ref"}}
            return self.schema(node, (*open_references, reference))
        below = (*open_references, "")
        return {
            name: self._keyword(name, value, below)
            for name, value in node.items()
            if name not in _DROPPED and not (name == "additionalProperties" and "patternProperties" in node)
        }

    def _keyword(self, name: str, value: Any, below: tuple[str, ...]) -> Any:
        if name in _VALUES:
            self._count(value, len(below))
            return value
        if name in ("properties", "dependentSchemas") and isinstance(value, dict):
            return {key: self.schema(each, below) for key, each in value.items()}
        return self.schema(value, below)

    def _target(self, reference: str) -> dict[str, Any]:
        node: Any = self._root
        if reference != "#" and not reference.startswith("#/"):
            raise SchemaRefused(f"the schema refers to {reference[:100]!r}")
        for part in reference[2:].split("/") if len(reference) > 1 else ():
            node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
        if not isinstance(node, dict):
            raise SchemaRefused(f"the schema has no {reference[:100]!r}")
        return node

    def _count(self, node: Any, depth: int) -> None:
        self._left -= 1 + (len(node) if isinstance(node, dict | list) else 0)
        if self._left < 0 or depth > MAX_DEPTH:
            raise SchemaRefused(f"the schema has more than {MAX_NODES} nodes or {MAX_DEPTH} levels")
