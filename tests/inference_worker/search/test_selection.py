from __future__ import annotations

import math

import pytest

from inference_worker.search.events import PathScore, SegmentEnd
from inference_worker.search.paths import Path
from inference_worker.search.selection import aggregate, best_answer, best_of_each_tree, best_overall
from router.messages import Aggregate

LAST, MIN, PRODUCT, MEAN = Aggregate.LAST, Aggregate.MIN, Aggregate.PRODUCT, Aggregate.MEAN


def path(number: int, score: float | None, origin: int = 1, ended: SegmentEnd | None = None) -> Path:
    return Path(number, 0, origin, 1, 1, [1], "", ended, score=score)


@pytest.mark.parametrize(
    ("steps", "by", "score"),
    [
        ([0.5, 0.2, 0.4], LAST, 0.4),
        ([0.5, 0.2, 0.4], MIN, 0.2),
        ([0.5, 0.2, 0.4], PRODUCT, 0.04),
        ([0.5, 0.25, 0.75], MEAN, 0.5),
        ([math.nan, 0.4], LAST, 0.4),
        ([math.nan, 0.4], MIN, math.nan),
        ([0.4, math.nan], MIN, math.nan),
        ([0.4, math.inf], LAST, math.nan),
        ([], MEAN, math.nan),
        ([], LAST, math.nan),
    ],
)
def test_aggregate(steps: list[float], by: Aggregate, score: float) -> None:
    assert aggregate(PathScore(steps), by) == pytest.approx(score, nan_ok=True)


def test_the_best_paths_are_those_with_the_highest_scores_and_lowest_numbers() -> None:
    paths = [path(1, None), path(2, 0.5), path(3, 0.9), path(4, 0.5), path(5, -3.0)]
    assert [each.number for each in best_overall(reversed(paths), 2)] == [3, 2]
    assert [each.number for each in best_overall(paths, 9)] == [3, 2, 4, 5, 1]


def test_each_tree_keeps_its_best_path() -> None:
    """With two first paths for each tree, paths 1 and 2 begin the first one; the third tree has ended."""
    paths = [path(7, 0.1, origin=1), path(8, 0.2, origin=2), path(9, 0.9, origin=3), path(10, 0.8, origin=4)]
    assert [each.number for each in best_of_each_tree(paths, 3, 2)] == [8, 9]


def test_a_complete_answer_wins_a_tie() -> None:
    cut, complete = path(1, 0.5, ended=SegmentEnd.LENGTH), path(2, 0.5, ended=SegmentEnd.STOP)
    assert best_answer([cut, complete]) is complete
    assert best_answer([path(1, 0.6), complete]).number == 1
    assert best_answer([complete, path(3, 0.5, ended=SegmentEnd.STOP)]) is complete
