"""Generates varied JSON schemas from a seed: nested, enums, local references, formats, unions, recursion, bounds."""

from __future__ import annotations

import random
from typing import Any

FORMATS = ["date", "date-time", "time", "email", "uuid", "ipv4", "hostname"]
PATTERNS = ["^[A-Z]{2}-[0-9]{3}$", "^(red|green|blue)$", "^[a-z]+(-[a-z]+){0,2}$", "^#[0-9a-f]{6}$"]
NAMES = ["name", "age", "tags", "id", "city", "ok", "größe", "a b", "x-y", "items"]


def schema(seed: int) -> dict[str, Any]:
    """Return a schema whose root is an object."""
    chance = random.Random(seed)
    made = _object(chance, 2)
    if seed % 5 == 0:
        made["$defs"] = {"leaf": _leaf(chance), "a/b~c": _leaf(chance)}
        made["properties"]["ref"] = {"$ref": "#/$defs/leaf"}
        made["properties"]["other"] = {"$ref": "#/$defs/a~1b~0c"}
        made["required"].append("other")
    if seed % 7 == 0:  # recursive
        made["properties"]["next"] = {"anyOf": [{"$ref": "#"}, {"type": "null"}]}
        made["required"].append("next")
    return made


def _any(chance: random.Random, depth: int) -> dict[str, Any]:
    if depth == 0:
        return _leaf(chance)
    kinds = [_object, _array, _union]
    return chance.choice(kinds)(chance, depth - 1) if chance.random() < 0.5 else _leaf(chance)


def _object(chance: random.Random, depth: int) -> dict[str, Any]:
    names = chance.sample(NAMES, chance.randint(1, 3))
    made: dict[str, Any] = {
        "type": "object",
        "properties": {name: _any(chance, depth) for name in names},
        "required": chance.sample(names, chance.randint(0, len(names))),
    }
    if chance.random() < 0.15:
        made["additionalProperties"] = _leaf(chance)
    elif chance.random() < 0.9:
        made["additionalProperties"] = False
    return made


def _array(chance: random.Random, depth: int) -> dict[str, Any]:
    if chance.random() < 0.2:
        return {"type": "array", "prefixItems": [_leaf(chance), _any(chance, depth)], "items": False, "minItems": 2}
    low = chance.randint(0, 2)
    return {"type": "array", "items": _any(chance, depth), "minItems": low, "maxItems": low + chance.randint(0, 2)}


def _union(chance: random.Random, depth: int) -> dict[str, Any]:
    if chance.random() < 0.3:
        return {"type": ["integer", "null", "boolean"]}
    return {"anyOf": [_any(chance, depth), _leaf(chance)]}


def _leaf(chance: random.Random) -> dict[str, Any]:
    low = chance.randint(-50, 50)
    return chance.choice(
        [
            {"type": "boolean"},
            {"type": "null"},
            {"const": chance.choice(["fixed", 7, None, True])},
            {"enum": chance.sample(["red", "green", 'quo"te', "größe", 3, 4.5, None, False], 3)},
            {"type": "integer", "minimum": low, "maximum": low + chance.randint(0, 500)},
            {"type": "integer", "exclusiveMinimum": low, "multipleOf": chance.choice([1, 2, 5])},
            {"type": "number", "minimum": low, "exclusiveMaximum": low + 1.5},
            {"type": "number"},
            {"type": "string", "minLength": chance.randint(0, 3), "maxLength": chance.randint(3, 12)},
            {"type": "string", "format": chance.choice(FORMATS)},
            {"type": "string", "pattern": chance.choice(PATTERNS)},
        ]
    )
