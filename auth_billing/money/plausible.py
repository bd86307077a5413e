"""What can be true of a message that somebody else wrote. Nobody is trusted with more than his own words."""

from __future__ import annotations

import re

from router.messages import Usage

MAX_INT = 2**63 - 1
"""The store's integers have 64 bits."""

_ID = re.compile(r"[A-Za-z0-9_.\-]{1,128}")


def objection_to_job(*ids: str) -> str | None:
    """Why ids of a job or an attempt can't be ours; `None` if they can."""
    return None if all(map(_ID.fullmatch, ids)) else "malformed job or attempt id"


def objection_to_usage(usage: Usage) -> str | None:
    """Why nobody can have used this; `None` if somebody can."""
    if any(not 0 <= n <= MAX_INT for n in (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)):
        return "a number of tokens is negative or past 64 bits"
    if usage.cached_tokens > usage.prompt_tokens:
        return "more cached tokens than prompt tokens"
    return None
