"""Scores by vectors and by words: how far a cosine stands out, and how many words with which BM25 a passage has."""

from __future__ import annotations

import numpy as np
import pytest

from documents.search.fusion import DEVIATIONS, SHARE_WEIGHT, vector_score, word_score


def test_a_cosine_counts_by_its_distance_from_the_mean_of_the_searched_rows() -> None:
    cosines = np.array([0.9, 0.1, 0.3, 0.2], np.float32)
    searched = np.array([False, True, True, True])
    scores = vector_score(cosines, searched)
    deviation = np.std([0.1, 0.3, 0.2])
    assert scores[2] == pytest.approx(0.1 / (DEVIATIONS * deviation))
    assert scores[1] == pytest.approx(-scores[2])
    assert scores[3] == pytest.approx(0, abs=1e-6)
    close = vector_score(np.array([0.61, 0.6, 0.62, 0.7], np.float32), np.full(4, True))
    wide = vector_score(np.array([0.01, 0.0, 0.02, 0.1], np.float32), np.full(4, True))
    assert close == pytest.approx(wide, abs=1e-4)


def test_equal_cosines_and_a_single_row_do_not_stand_out() -> None:
    assert vector_score(np.full(3, 0.5, np.float32), np.full(3, True)).tolist() == [0, 0, 0]
    assert vector_score(np.array([0.5], np.float32), np.array([False])).tolist() == [0]


def test_words_count_by_their_share_and_by_bm25() -> None:
    assert word_score(1.0, 8.0, 8.0) == 1
    assert word_score(1.0, 0.0, 8.0) == SHARE_WEIGHT
    assert word_score(0.0, 4.0, 8.0) == pytest.approx((1 - SHARE_WEIGHT) / 2)
    assert word_score(0.0, 0.0, 0.0) == 0
