"""Counts votes of a search's answers by equal results, and decides when more answers would hardly change the leader.

Answers of self-consistency are generated in waves. After each, the search stops if the leading result will most likely
lead after all `n` answers too. As in Adaptive-Consistency (Aggarwal et al. 2023), only the two most frequent results
are compared, under a uniform prior; but what is asked is the end of this vote, not of one without an end, so close
votes stop too once few answers are left, and votes between wrong results as soon as between right ones.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from inference_worker.search.paths import Path

MIN_ANSWERS = 3
"""Fewest answers of a vote: with fewer, a majority says little."""
WAVE_SHARE = 6
"""A wave has at least one answer for so many that there are, so that a long close vote takes few waves."""


@dataclass
class Vote:
    """A result, and the answers that have it, by number."""

    result: str
    weight: float
    paths: list[Path] = field(default_factory=list)


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


def wave_size(votes: list[Vote], answers: int, outstanding: int, confidence: float) -> int:
    """Return how many of the `outstanding` answers are generated together next, 0 if the leader has won.

    `votes` are the unweighted votes of the `answers` that there are. The leading result has won if it most likely leads
    after the outstanding answers too: with the probability `confidence`, or for certain if that is 1. A wave has as
    many answers as the leader needs for that if it gets all their votes; fewer could not end the search.
    """
    leader, second = [*votes, Vote("", 0), Vote("", 0)][:2]
    wins_ties = not second.paths or leader.paths[0].number < second.paths[0].number
    ours, theirs = round(leader.weight), round(second.weight)
    others = answers - ours - theirs

    def wins(more: int) -> bool:
        """Return whether the leader has won once it has `more` votes."""
        probability = leader_probability(ours + more, theirs, others, outstanding - more, wins_ties=wins_ties)
        return ours + more > 0 and probability >= confidence

    needed = bisect_left(range(outstanding), True, key=wins)
    return min(outstanding, max(needed, MIN_ANSWERS - answers, answers // WAVE_SHARE)) if needed else 0


def leader_probability(leader: int, second: int, others: int, outstanding: int, *, wins_ties: bool) -> float:
    """Return the probability (0 to 1) that the second result does not lead after `outstanding` more answers.

    `leader`, `second` and `others` are the votes of the two most frequent results, and the answers without them. Under
    a uniform prior the next answers are draws from Pólya's urn, so the number of the ways in which i of them are for
    the leader is the binomial coefficient of `leader` + i and i, and so on. All are whole numbers: the sum is exact.
    """
    ours, theirs, rest = (
        [math.comb(votes + more, more) for more in range(outstanding + 1)] for votes in (leader, second, others)
    )
    lost = sum(
        ours[i] * theirs[j] * rest[outstanding - i - j]
        for i in range(outstanding + 1)
        for j in range(max(0, leader + i - second + wins_ties), outstanding - i + 1)
    )
    ways = math.comb(leader + second + others + outstanding + 2, outstanding)
    return (ways - lost) / ways
