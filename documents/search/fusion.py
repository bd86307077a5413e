"""Reciprocal rank fusion: makes one ranking of several, by the places alone, as their scores are not comparable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

CONSTANT = 60
"""Added to each place, so that the first places of one ranking do not outweigh a place in several (Cormack, 2009)."""


@dataclass(frozen=True)
class Ranking:
    """Rows in descending order of fitness, by one measure, and the weight of that measure."""

    weight: float
    rows: Sequence[int]


def fuse(rankings: Sequence[Ranking]) -> list[int]:
    """Return the rows of all rankings, those with the highest sum of weighted reciprocal places first.

    Rows with equal sums are in ascending order.
    """
    sums: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        for place, row in enumerate(ranking.rows, 1):
            sums[row] += ranking.weight / (CONSTANT + place)
    return sorted(sums, key=lambda row: (-sums[row], row))
