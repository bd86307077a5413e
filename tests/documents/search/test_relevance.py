"""Whether a passage is relevant to a question, by its cosine and the question's words."""

from __future__ import annotations

import pytest

from documents.search.question_language import Language
from documents.search.relevance import LIKELY_COSINE, LIKELY_WORDS, SURE_COSINE, SURE_WORDS, is_relevant

BELOW = 0.001


@pytest.mark.parametrize(
    ("language", "cosine", "words", "expected"),
    [
        ("en", SURE_COSINE, 0.0, True),
        (None, SURE_COSINE, 0.0, True),
        ("pl", SURE_COSINE, 0.0, False),
        ("pl", SURE_COSINE, None, True),
        ("en", SURE_COSINE - BELOW, LIKELY_WORDS - BELOW, False),
        ("pl", LIKELY_COSINE, LIKELY_WORDS, True),
        ("en", LIKELY_COSINE - BELOW, SURE_WORDS - BELOW, False),
        ("en", -0.1, SURE_WORDS, True),
        ("en", None, SURE_WORDS, True),
        ("en", None, LIKELY_WORDS, False),
    ],
)
def test_a_passage_fits_by_either_measure_or_by_both(
    language: Language | None, cosine: float | None, words: float | None, *, expected: bool
) -> None:
    assert is_relevant(language, cosine, words) is expected
