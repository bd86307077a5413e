"""Parses query strings of API requests strictly: an unknown or invalid parameter is refused, never ignored.

Lists are repeated parameters, `models=a&models=b` or `models[]=a&models[]=b` (as OpenAI's clients write them); ranges
are written `effective_at[gte]=1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Self, get_origin

from pydantic import BeforeValidator, ConfigDict, StringConstraints

from gateway.errors import InvalidRequest
from gateway.openai.base import RequestBody

MAX_PARAMETERS = 512

_NAME = re.compile(r"([a-z][a-z0-9_]{0,63})(?:\[([a-z]{0,8})\])?")
_INTEGER = re.compile(r"-?[0-9]{1,16}")
_BOOLEANS = {"true": True, "false": False}


def _integer(value: Any) -> Any:
    return int(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else value


def _boolean(value: Any) -> Any:
    return _BOOLEANS.get(value, value) if isinstance(value, str) else value


QueryInt = Annotated[int, BeforeValidator(_integer)]
QueryBool = Annotated[bool, BeforeValidator(_boolean)]
QueryText = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class QueryParameters(RequestBody):
    """Base of a route's query parameters. Create one with `parse_query`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    @classmethod
    def parse_query(cls, items: Iterable[tuple[str, str]]) -> Self:
        """Validate the (name, value) pairs of a query string, and return the parameters.

        Raises:
            InvalidRequest: A parameter is unknown, invalid or repeated; `param` names it.
        """
        given: dict[str, Any] = {}
        for number, (name, value) in enumerate(items):
            if number >= MAX_PARAMETERS:
                raise InvalidRequest(f"The query has more than {MAX_PARAMETERS} parameters.")
            cls._add(given, name, value)
        return cls.parse(given)

    @classmethod
    def _add(cls, given: dict[str, Any], name: str, value: str) -> None:
        match = _NAME.fullmatch(name)
        field = None if match is None else cls.model_fields.get(match[1])
        if match is None or field is None:
            raise InvalidRequest("Unknown parameter in the query.", param=name[:64], code="unknown_parameter")
        key, part = match[1], match[2]
        if get_origin(field.annotation) is list and not part:
            given.setdefault(key, []).append(value)
        elif part and isinstance(inner := given.setdefault(key, {}), dict) and part not in inner:
            inner[part] = value
        elif part is None and key not in given:
            given[key] = value
        else:
            raise InvalidRequest(f"Invalid '{key}': given more than once.", param=key)


def document_parameters(kind: type[QueryParameters]) -> list[dict[str, Any]]:
    """Return the OpenAPI `parameters` of a route whose query string is parsed as model `kind`."""
    schema = kind.model_json_schema()
    required, definitions = schema.get("required", []), schema.get("$defs", {})
    return [
        _described(name, name in required, each, definitions) for name, each in schema.get("properties", {}).items()
    ]


def _described(name: str, required: bool, schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    described = {"name": name, "in": "query", "required": required, "description": schema.pop("description", "")}
    inner = next((each for each in schema.get("anyOf", []) if each.get("type") != "null"), schema)
    if "$ref" in inner:
        inner = definitions[inner["$ref"].rpartition("/")[2]]
    if inner.get("type") == "object":
        described["style"] = "deepObject"
    return {**described, "schema": inner}
