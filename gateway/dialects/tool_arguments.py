"""Reads the arguments of tool calls, which other vendors' APIs have as objects and OpenAI's as text."""

from __future__ import annotations

from typing import Any

from runtime.strict_json import MalformedRequest, parse_now

INVALID_JSON = "INVALID_JSON"
"""Key under which arguments are given that are not a JSON object, as Anthropic recommends to clients."""


def tool_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a tool call, JSON as the model wrote it, as an object; see `INVALID_JSON`."""
    try:
        value = parse_now((text or "{}").encode())
    except MalformedRequest:
        value = None
    return value if isinstance(value, dict) else {INVALID_JSON: text}
