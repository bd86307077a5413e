"""Selects, by the scores of a verifier, which paths of a search go on and which one becomes the answer."""

from __future__ import annotations

import math
from collections.abc import Iterable

from inference_worker.search.events import PathScore, SegmentEnd
from inference_worker.search.paths import Path
from router.messages import Aggregate


def aggregate(score: PathScore, by: Aggregate) -> float:
    """Return the score of a whole path from its steps' scores, by the client's choice `by` (such as minimum or mean).

    NaN if there are no scores, or one is no finite number.
    """
    steps = score.steps[-1:] if by is Aggregate.LAST else score.steps
    if not steps or not all(math.isfinite(step) for step in steps):
        return math.nan
    match by:
        case Aggregate.LAST:
            return steps[0]
        case Aggregate.MIN:
            return min(steps)
        case Aggregate.PRODUCT:
            return math.prod(steps)
        case Aggregate.MEAN:
            return math.fsum(steps) / len(steps)


def _value(path: Path) -> float:
    return -math.inf if path.score is None else path.score


def best_overall(candidates: Iterable[Path], count: int) -> list[Path]:
    """Return the `count` best-scored of a step's `candidates`; of equal ones those with the lower numbers."""
    return sorted(candidates, key=lambda path: (-_value(path), path.number))[:count]


def best_of_each_tree(candidates: Iterable[Path], trees: int, first_paths: int) -> list[Path]:
    """Return the best of a step's `candidates` in each tree of a search that keeps its trees apart.

    A search begins with `trees * first_paths` paths, `first_paths` for each tree; all their descendants belong to the
    tree.
    """
    members: list[list[Path]] = [[] for _ in range(trees)]
    for path in candidates:
        members[(path.origin - 1) // first_paths].append(path)
    return [path for tree in members for path in best_overall(tree, 1)]


def best_answer(paths: Iterable[Path]) -> Path:
    """Return the path with the highest score; of equal ones a complete answer, then that with the lowest number.

    It is the search's answer.
    """
    return min(paths, key=lambda path: (-_value(path), path.ended is not SegmentEnd.STOP, path.number))
