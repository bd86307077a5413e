"""Shortens conversations that are longer than the context: their oldest turns are left out, system messages stay.

Rendering and tokenising a long conversation takes seconds, so it is done a few times only: how many turns to leave out
is estimated from their sizes in bytes and from the tokens of the renderings before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import neg
from typing import Any, NamedTuple

import msgspec

from router.messages import ChatPrompt

MAX_RENDERINGS = 6
"""Most renderings of one conversation, with that of the whole conversation and that of its last turn alone."""


class _Length(NamedTuple):
    size: int
    """Bytes of the messages."""
    tokens: int


def shortened_ids(prompt: ChatPrompt, ids_of: Callable[[ChatPrompt], list[int]], space: int) -> list[int]:
    """Return the token ids of a conversation without as many of its oldest turns as it is longer than `space` tokens.

    A turn begins with a user's message. The last turn stays, also if it is longer. More turns than needed are left out
    if the turns have so different numbers of tokens per byte that `MAX_RENDERINGS` don't suffice to find the fewest.
    """
    ids = ids_of(prompt)
    system, starts = _turns(prompt.messages)
    if len(ids) <= space or len(starts) < 2:
        return ids

    def without(turns: int) -> list[int]:
        return ids_of(msgspec.structs.replace(prompt, messages=[*system, *prompt.messages[starts[turns] :]]))

    sizes = _sizes(prompt.messages, starts)
    before, latest = _Length(0, 0), _Length(sizes[0], len(ids))
    too_few, enough, fitting = 0, len(starts), None
    for left in reversed(range(MAX_RENDERINGS - 2)):
        if enough - too_few == 1:
            break
        aim = space if left or fitting is not None else space * 3 // 4  # the last try should fit
        turns = bisect_left(sizes, -_size_of(aim, before, latest), key=neg)
        turns = min(max(turns, too_few + 1), enough - 1)
        ids = without(turns)
        before, latest = latest, _Length(sizes[turns], len(ids))
        if len(ids) <= space:
            enough, fitting = turns, ids
        else:
            too_few = turns
    if fitting is not None:
        return fitting
    return ids if too_few == len(starts) - 1 else without(len(starts) - 1)


def _turns(messages: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the system messages at the beginning, and the numbers of the messages that begin the turns."""
    first = next((n for n, each in enumerate(messages) if each["role"] not in ("system", "developer")), len(messages))
    starts = [number for number, each in enumerate(messages) if number > first and each["role"] == "user"]
    return list(messages[:first]), [first, *starts]


def _sizes(messages: Sequence[dict[str, Any]], starts: Sequence[int]) -> list[int]:
    """Return the decreasing sizes in bytes of a conversation from each of `starts` on, system messages included."""
    ends = [0, *accumulate(len(msgspec.json.encode(each)) for each in messages)]
    return [ends[starts[0]] + ends[-1] - ends[start] for start in starts]


def _size_of(tokens: int, before: _Length, latest: _Length) -> float:
    """Return the size of a conversation of so many tokens, on the line through the lengths of two others."""
    rise = (latest.tokens - before.tokens) / (latest.size - before.size)
    if rise <= 0:
        rise = max(1, latest.tokens) / latest.size
    return latest.size + (tokens - latest.tokens) / rise
