"""Similarity of texts by their character trigrams."""

from __future__ import annotations

from collections.abc import Sequence

from assistant.routing.normal_form import plain


def trigrams(text: str) -> set[str]:
    words = f"  {plain(text)}  "
    return {words[i : i + 3] for i in range(len(words) - 2)}


def similarity(one: str, other: str) -> float:
    """Return the Jaccard index of the texts' trigrams, 0 to 1."""
    first, second = trigrams(one), trigrams(other)
    return len(first & second) / len(first | second)


def most_similar(text: str, others: Sequence[str]) -> tuple[float, str]:
    """Return the highest similarity of `text` to one of `others`, with that one."""
    return max((similarity(text, other), other) for other in others)
