from __future__ import annotations

import pytest
from scipy.special import betainc

from inference_worker.search.paths import Path
from inference_worker.search.voting import count_votes, leader_probability, settled, wave_size


def answers(*results: str | None, scores: list[float | None] | None = None) -> list[Path]:
    paths = [Path(number, 0, number, 1, 1, [1], "", None, result=each) for number, each in enumerate(results, start=1)]
    for path, score in zip(paths, scores or [], strict=False):
        path.score = score
    return paths


def test_the_probability_is_that_of_the_beta_posterior() -> None:
    for leader in range(65):
        for second in range(leader + 1):
            expected = 1 - betainc(leader + 1, second + 1, 0.5)
            assert leader_probability(leader, second) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("n", "size"), [(1, 3), (12, 3), (13, 4), (16, 4), (64, 16)])
def test_wave_size(n: int, size: int) -> None:
    assert wave_size(n) == size


def test_votes_are_sorted_by_weight_and_then_by_first_answer() -> None:
    paths = answers("b", None, "a", "a", "b", "c")
    votes = [(vote.result, vote.weight) for vote in count_votes(paths, weighted=False)]
    assert votes == [("b", 2), ("a", 2), ("c", 1)]


def test_weighted_votes_are_sums_of_scores() -> None:
    paths = answers("a", "a", "b", "b", scores=[0.3, 0.3, None, 0.7])
    votes = [(vote.result, vote.weight) for vote in count_votes(paths, weighted=True)]
    assert votes == [("b", pytest.approx(0.7)), ("a", pytest.approx(0.6))]


@pytest.mark.parametrize(
    ("results", "outstanding", "is_settled"),
    [
        ("aaa", 13, False),  # probability 0.9375
        ("aaaa", 12, True),  # 0.969
        ("aab", 1, True),  # a tie goes to the first
        ("baa", 1, False),  # a tie would go to b
        ("aab", 2, False),
        ("a", 1, True),
        ("ab", 0, True),
        ("", 0, False),
    ],
)
def test_settled(results: str, outstanding: int, is_settled: bool) -> None:
    assert settled(count_votes(answers(*results), weighted=False), outstanding) is is_settled
