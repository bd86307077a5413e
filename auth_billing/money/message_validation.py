"""Checks messages of other processes to billing: whether their ids, token counts and parts of usage can be true."""

from __future__ import annotations

import re
from collections.abc import Sequence

from auth_billing.prices.pricing import MAX_UNITS, UNIT_NAME
from router.messages import Usage, UsagePart

MAX_INT = 2**63 - 1
"""The largest integer that the store can hold (64 bits)."""

MAX_PARTS = 64
"""Most parts of one job's usage."""
MAX_NAME = 256
"""Longest name of a model or unit, in characters."""

_ID = re.compile(r"[A-Za-z0-9_.\-]{1,128}")


def ids_error(*ids: str) -> str | None:
    """Return the reason why one of these job or attempt ids is malformed, `None` if all are valid."""
    return None if all(map(_ID.fullmatch, ids)) else "malformed job or attempt id"


def usage_error(usage: Usage) -> str | None:
    """Return why a message's usage counts can't be true or its units can't be stored; `None` if valid."""
    tokens = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.reasoning_tokens)
    if any(not 0 <= n <= MAX_INT for n in (*tokens, *usage.units.values())):
        return "a number of tokens or units is negative or past 64 bits"
    if usage.reasoning_tokens > usage.completion_tokens:
        return "more reasoning tokens than completion tokens"
    if usage.cached_tokens > usage.prompt_tokens:
        return "more cached tokens than prompt tokens"
    if len(usage.units) > MAX_UNITS or any(not UNIT_NAME.fullmatch(unit) for unit in usage.units):
        return "too many units, or a malformed name of one"
    return None


def parts_error(parts: Sequence[UsagePart]) -> str | None:
    """Return why the parts of a job's usage (of its steps, by model) can't be true; `None` if they are valid."""
    if len(parts) > MAX_PARTS or any(not part.model or len(part.model) > MAX_NAME for part in parts):
        return "too many parts, or a malformed name of a model"
    return next((reason for part in parts if (reason := usage_error(part.usage)) is not None), None)
