"""Validation of messages from other processes: which ids and which usage can be true."""

from __future__ import annotations

import re

from router.messages import Usage

MAX_INT = 2**63 - 1
"""The largest integer that the store can hold (64 bits)."""

_ID = re.compile(r"[A-Za-z0-9_.\-]{1,128}")


def ids_error(*ids: str) -> str | None:
    """Return the reason if one of these job or attempt ids is malformed, else `None`."""
    return None if all(map(_ID.fullmatch, ids)) else "malformed job or attempt id"


def usage_error(usage: Usage) -> str | None:
    """Return the reason if the token counts of a usage can't be true, else `None`."""
    if any(not 0 <= n <= MAX_INT for n in (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)):
        return "a number of tokens is negative or past 64 bits"
    if usage.cached_tokens > usage.prompt_tokens:
        return "more cached tokens than prompt tokens"
    return None
