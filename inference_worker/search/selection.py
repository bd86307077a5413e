"""Which paths of a search go on, and which one is chosen, by the scores of a verifier."""

from __future__ import annotations

import math
from collections.abc import Iterable

from inference_worker.search.events import PathScore, SegmentEnd
from inference_worker.search.paths import Path
from router.messages import Aggregate


def aggregate(score: PathScore, by: Aggregate) -> float:
    """Return the score of a path from those of its steps; NaN if there are none, or one is no finite number."""
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
    """Return the `count` paths with the highest scores; of equal ones those with the lower numbers."""
    return sorted(candidates, key=lambda path: (-_value(path), path.number))[:count]


def best_of_each_tree(candidates: Iterable[Path], trees: int, first_paths: int) -> list[Path]:
    """Return the best path of each tree; a tree begins with `first_paths` of the first `trees * first_paths` paths."""
    members: list[list[Path]] = [[] for _ in range(trees)]
    for path in candidates:
        members[(path.origin - 1) // first_paths].append(path)
    return [path for tree in members for path in best_overall(tree, 1)]


def best_answer(paths: Iterable[Path]) -> Path:
    """Return the path with the highest score; of equal ones a complete answer, then that with the lowest number."""
    return min(paths, key=lambda path: (-_value(path), path.ended is not SegmentEnd.STOP, path.number))
