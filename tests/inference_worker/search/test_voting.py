from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_worker.search.paths import Path
from inference_worker.search.voting import count_votes, leader_probability, wave_size
from tests.inference_worker.search.reference import stays


def answers(*results: str | None, scores: list[float | None] | None = None) -> list[Path]:
    paths = [Path(number, 0, number, 1, 1, [1], "", None, result=each) for number, each in enumerate(results, start=1)]
    for path, score in zip(paths, scores or [], strict=False):
        path.score = score
    return paths


@pytest.mark.parametrize("wins_ties", [False, True])
def test_the_probability_is_that_of_draws_from_an_urn(wins_ties: bool) -> None:
    for leader, second, others, outstanding in product(range(5), range(5), range(4), range(7)):
        found = leader_probability(leader, second, others, outstanding, wins_ties=wins_ties)
        assert found == float(stays(leader, second, others, outstanding, wins_ties))


def test_votes_are_sorted_by_weight_and_then_by_first_answer() -> None:
    paths = answers("b", None, "a", "a", "b", "c")
    votes = [(vote.result, vote.weight) for vote in count_votes(paths, weighted=False)]
    assert votes == [("b", 2), ("a", 2), ("c", 1)]


def test_weighted_votes_are_sums_of_scores() -> None:
    paths = answers("a", "a", "b", "b", scores=[0.3, 0.3, None, 0.7])
    votes = [(vote.result, vote.weight) for vote in count_votes(paths, weighted=True)]
    assert votes == [("b", pytest.approx(0.7)), ("a", pytest.approx(0.6))]


def wave(results: Sequence[str | None], outstanding: int, confidence: float) -> int:
    return wave_size(count_votes(answers(*results), weighted=False), len(results), outstanding, confidence)


@pytest.mark.parametrize(
    ("results", "outstanding", "confidence", "size"),
    [
        ("", 16, 0.95, 3),
        ("aaa", 13, 0.95, 0),  # 0.971
        ("aaa", 61, 0.95, 1),  # 0.947
        ("aaa", 61, 0.94, 0),
        ("aab", 13, 0.95, 2),
        ("", 16, 1, 8),
        ("", 2, 0.95, 2),
        ("a", 7, 0.5, 0),
        ("aaaaaaaabbbb", 4, 0.95, 0),  # of a vote without an end the leader would be uncertain
        ("ab" * 24, 16, 0.95, 8),
        ("aab", 1, 1, 0),  # a tie goes to the first
        ("baa", 1, 1, 1),  # a tie would go to b
        ("aab", 2, 1, 1),
        ("ab", 0, 1, 0),
    ],
)
def test_wave_size(results: str, outstanding: int, confidence: float, size: int) -> None:
    assert wave(results, outstanding, confidence) == size


def test_answers_without_a_result_do_not_end_a_vote() -> None:
    assert wave([None] * 3, 13, 0.5) == 1
    assert wave([None] * 3, 0, 0.5) == 0
    assert wave(["a", None, None, "a", None], 3, 0.95) == 0


@given(votes=st.lists(st.sampled_from("abcd"), min_size=1, max_size=10), outstanding=st.integers(0, 4))
def test_certain_leaders_win_however_the_rest_votes(votes: list[str], outstanding: int) -> None:
    def leader(results: Sequence[str]) -> str:
        return count_votes(answers(*results), weighted=False)[0].result

    certain = all(leader([*votes, *rest]) == leader(votes) for rest in product("abcde", repeat=outstanding))
    assert (wave(votes, outstanding, 1) == 0) is certain


@given(
    votes=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=3, max_size=11),
    outstanding=st.integers(1, 20),
    confidence=st.floats(0.5, 1),
    more=st.data(),
)
def test_a_wave_is_no_larger_than_votes_counted_after_each_answer_would_take(
    votes: list[str | None], outstanding: int, confidence: float, more: st.DataObject
) -> None:
    """Up to 11 answers; with more, a wave has at least one for six of them."""
    size = wave(votes, outstanding, confidence)
    added: list[str | None] = []
    for _ in range(size - 1):
        added.append(more.draw(st.sampled_from(["a", "b", "c", "d", None])))
        assert wave([*votes, *added], outstanding - len(added), confidence) > 0
