"""Whether passages are relevant to a question, by their highest cosine and share of its words."""

from __future__ import annotations

import pytest

from documents.search.question_language import Language
from documents.search.relevance import COSINE_ALONE, ENGLISH, POLISH, WORDS_ALONE, RelevanceLimit, is_relevant

BELOW = 0.001


@pytest.mark.parametrize(("language", "limit"), [("en", ENGLISH), (None, ENGLISH), ("pl", POLISH)])
def test_words_and_cosine_are_added(language: Language | None, limit: RelevanceLimit) -> None:
    cosine = 0.2
    words = limit.evidence - limit.cosine_weight * cosine
    assert is_relevant(language, cosine, words + BELOW)
    assert not is_relevant(language, cosine, words - BELOW)
    assert is_relevant(language, 0.0, limit.evidence)


def test_a_cosine_is_enough_unless_the_question_is_in_polish() -> None:
    assert is_relevant("en", COSINE_ALONE, 0.0)
    assert not is_relevant("pl", 0.9, 0.0)


@pytest.mark.parametrize("language", ["en", "pl", None])
def test_a_measure_decides_alone_where_a_search_does_not_have_the_other(language: Language | None) -> None:
    assert is_relevant(language, COSINE_ALONE, None)
    assert not is_relevant(language, COSINE_ALONE - BELOW, None)
    assert is_relevant(language, None, WORDS_ALONE)
    assert not is_relevant(language, None, WORDS_ALONE - BELOW)
    assert not is_relevant(language, None, None)
