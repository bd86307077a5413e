"""Counts votes of a search's answers by equal results, and decides when more answers would hardly change the leader.

Answers of self-consistency are generated in waves. After each, the search stops if the votes that are left can't change
the leader, or if the criterion of Adaptive-Consistency holds (Aggarwal et al. 2023): the leader is the more probable of
the two most frequent results with at least 95 %, by the Beta posterior of their votes under a uniform prior.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from inference_worker.search.paths import Path

MIN_WAVE = 3
"""Fewest answers of a wave: with fewer, a majority says little."""
CONFIDENCE = 0.95
"""Probability of the leader from which on no more answers are generated."""


@dataclass
class Vote:
    """A result, and the answers that have it, by number."""

    result: str
    weight: float
    paths: list[Path] = field(default_factory=list)


def wave_size(n: int) -> int:
    """Return how many of a self-consistency search's `n` answers are generated at a time, between vote counts."""
    return max(MIN_WAVE, math.ceil(n / 4))


def count_votes(paths: Iterable[Path], *, weighted: bool) -> list[Vote]:
    """Return the votes for each distinct result of a search's answers, the most votes first.

    An answer votes with weight 1, or if `weighted` with its score; an answer without a result does not vote. Of equal
    votes that with the lowest path number is first.
    """
    votes: dict[str, Vote] = {}
    for path in sorted(paths, key=lambda path: path.number):
        if path.result is not None:
            vote = votes.setdefault(path.result, Vote(path.result, 0))
            vote.weight += (path.score or 0.0) if weighted else 1
            vote.paths.append(path)
    return sorted(votes.values(), key=lambda vote: (-vote.weight, vote.paths[0].number))


def settled(votes: list[Vote], outstanding: int) -> bool:
    """Return whether more answers are unnecessary, because the leading result has won the unweighted `votes`.

    It wins for certain if `outstanding` answers can't change the leader, or with a probability of at least
    `CONFIDENCE`.
    """
    if not votes:
        return False
    leader = votes[0]
    rivals: list[tuple[float, float]] = [(vote.weight, vote.paths[0].number) for vote in votes[1:]]
    rivals.append((0, math.inf))  # a result that no answer has yet
    rank = (-leader.weight, leader.paths[0].number)
    if all((-weight - outstanding, first) > rank for weight, first in rivals):
        return True
    return leader_probability(round(leader.weight), round(rivals[0][0])) >= CONFIDENCE


def leader_probability(leader: int, second: int) -> float:
    """Return the probability (0 to 1) that of the two most frequent results the leading one is the more frequent.

    `leader` and `second` are the votes of both. The probability is 1 - I(1/2; leader + 1, second + 1), with the
    regularised incomplete beta function I. At 1/2 with whole parameters that is a sum of binomial coefficients, so it
    is exact.
    """
    throws = leader + second + 1
    return sum(math.comb(throws, successes) for successes in range(leader + 1)) / (1 << throws)
