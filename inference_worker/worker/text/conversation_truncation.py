"""Shortens conversations that are longer than the context: their oldest turns are left out, system messages stay."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from router.messages import ChatPrompt


def shortened_ids(prompt: ChatPrompt, ids_of: Callable[[ChatPrompt], list[int]], space: int) -> list[int]:
    """Return the token ids of a conversation without as many of its oldest turns as it is longer than `space` tokens.

    A turn begins with a user's message. The last turn stays, also if it is longer.
    """
    ids = ids_of(prompt)
    if len(ids) <= space:
        return ids
    system, starts = _turns(prompt.messages)
    shorter = [msgspec.structs.replace(prompt, messages=[*system, *prompt.messages[start:]]) for start in starts]
    if not shorter:
        return ids
    fitting = bisect_left(shorter, True, key=lambda each: len(ids_of(each)) <= space)
    return ids_of(shorter[min(fitting, len(shorter) - 1)])


def _turns(messages: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the system messages at the beginning, and the numbers of the messages that begin the later turns."""
    first = next((n for n, each in enumerate(messages) if each["role"] not in ("system", "developer")), len(messages))
    starts = [number for number, each in enumerate(messages) if number > first and each["role"] == "user"]
    return list(messages[:first]), starts
