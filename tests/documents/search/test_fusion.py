"""Reciprocal rank fusion: places add up, weights count, equal sums keep the order of rows."""

from __future__ import annotations

from documents.search.fusion import Ranking, fuse


def test_a_row_in_two_rankings_comes_before_the_first_of_one() -> None:
    assert fuse([Ranking(1, [1, 2, 3]), Ranking(1, [4, 3])]) == [3, 1, 4, 2]


def test_a_weight_decides_between_the_first_of_two_rankings() -> None:
    assert fuse([Ranking(1, [1]), Ranking(2, [2])]) == [2, 1]
    assert fuse([Ranking(1, [7]), Ranking(1, [5])]) == [5, 7]


def test_nothing_is_fused_to_nothing() -> None:
    assert fuse([]) == fuse([Ranking(1, [])]) == []
