"""Validates request fields with several prompts: `prompt` of `/v1/completions` and `input` of `/v1/embeddings`.

Each is a string, a list of strings, a list of token ids, or a list of lists of token ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic_core import PydanticCustomError

from gateway.openai.sampling import INT32_MAX

Prompts = Sequence[str | list[int]]
"""Prompts of a request: all strings or all lists of token ids, none of them empty."""

_TEXT = {"type": "string", "minLength": 1}
_TOKENS = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": INT32_MAX}, "minItems": 1}


def prompts_schema(max_prompts: int) -> dict[str, Any]:
    """Return the JSON schema of a request field with up to `max_prompts` prompts: text or token ids, one or a list."""
    return {
        "anyOf": [
            _TEXT,
            _TOKENS,
            {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": max_prompts},
            {"type": "array", "items": _TOKENS, "minItems": 1, "maxItems": max_prompts},
        ]
    }


def prompts_up_to(max_prompts: int) -> Callable[[Any], Prompts]:
    """Create a validator that converts text, texts, token ids or lists of them to a list of up to `max_prompts`."""

    def read(value: Any) -> Prompts:
        if isinstance(value, str) or _is_token_list(value):
            value = [value]
        if not isinstance(value, list) or not value:
            raise _error("it must be a string, a list of strings, a list of token ids, or a list of lists of token ids")
        if len(value) > max_prompts:
            raise _error(f"at most {max_prompts} are allowed in a request")
        if any(item in ("", []) for item in value):
            raise _error("it must not be empty")
        if all(isinstance(item, str) for item in value):
            return value
        if not all(_is_token_list(item) for item in value):
            raise _error("strings, token ids and other values can't be mixed")
        if any(min(item) < 0 or max(item) > INT32_MAX for item in value):
            raise _error("a token id is not in the vocabulary")
        return value

    return read


def _is_token_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(token) is int for token in value)


def _error(message: str) -> PydanticCustomError:
    return PydanticCustomError("invalid_value", "{message}", {"message": message})
