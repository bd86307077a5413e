"""Rules of tool calls in llguidance's Lark notation, as JSON objects: for grammars of free text, and of calls alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inference_worker.structured.additional_properties import forbid_additional_properties
from inference_worker.structured.compiler import JSON_OPTIONS
from inference_worker.structured.json_text_grammar import json_text
from router.messages import LARK_KEYWORD

SPACE = r"(?: |\n[ \t]{0,40})?"
"""White space between two JSON tokens, bounded as in JSON answers."""
_ANY_OBJECT: dict[str, Any] = {"type": "object"}


def has_lark_text(tool: Mapping[str, Any]) -> bool:
    """Return whether the only argument of a tool is a text with a grammar in Lark's notation."""
    return _lark_text(tool["function"]) is not None


def arguments_rules(functions: Sequence[Mapping[str, Any]], *, forced: bool = False) -> Iterator[str]:
    """Yield the rules `argumentsN` of the arguments of each function, and `END` of the end of a call.

    They match the parameters of `strict` functions, with `forced` those of all.
    """
    yield f"END: /{SPACE}\\}}/"
    for number, function in enumerate(functions):
        if (text := _lark_text(function)) is not None:
            name, definition = text
            yield f'arguments{number}: /\\{{{SPACE}"{escaped(name)}"{SPACE}:{SPACE}"/ text{number} /"{SPACE}\\}}/'
            yield json_text(f"text{number}", definition)
            continue
        matches = forced or function.get("strict")
        schema = {**_ANY_OBJECT, **function["parameters"]} if matches else _ANY_OBJECT
        yield f"arguments{number}: %json {_json_schema(schema)}"


def call_rule(number: int, function: Mapping[str, Any], before: str) -> str:
    """Return the body of a rule of one call as an object, after a text that matches `before`."""
    name, colon = escaped(function["name"]), f"{SPACE}:{SPACE}"
    head = rf'{before}\{{{SPACE}"name"{colon}"{name}"{SPACE},{SPACE}"(?:arguments|parameters)"{colon}'
    return f"/{head}/ arguments{number} END"


def _json_schema(schema: Mapping[str, Any]) -> str:
    return json.dumps({**forbid_additional_properties(dict(schema)), "x-guidance": JSON_OPTIONS})


def escaped(text: str) -> str:
    """Return a text as a part of a regular expression in Lark's notation."""
    return re.escape(text).replace("/", r"\/").replace("\\-", "-").replace("\\<", "<").replace("\\>", ">")


def _lark_text(function: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the name of a function's only argument and its grammar in Lark's notation; `None` if it has none."""
    properties = function["parameters"].get("properties")
    if not isinstance(properties, dict) or len(properties) != 1:
        return None
    ((name, schema),) = properties.items()
    definition = schema.get(LARK_KEYWORD) if isinstance(schema, dict) else None
    return (name, definition) if isinstance(definition, str) else None
