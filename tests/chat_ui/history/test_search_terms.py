"""Search terms and excerpts of conversations."""

from __future__ import annotations

import re

import pytest

from chat_ui.history.limits import MAX_QUERY_WORDS, MAX_TERM_CHARS, MAX_TERMS
from chat_ui.history.search_terms import accent_insensitive_pattern, excerpt, normalised, query_words, search_terms


@pytest.mark.parametrize(
    ("text", "plain"),
    [("Zażółć GĘŚLĄ Jaźń", "zazolc gesla jazn"), ("Straße", "strasse"), ("ﬁne Ⅷ", "fine viii"), ("Øre", "ore")],
)
def test_case_accents_and_strokes_make_no_difference(text: str, plain: str) -> None:
    assert normalised(text) == plain


def test_terms_are_distinct_words_and_limited() -> None:
    assert search_terms(["One two, one!", "trois"]) == ["one", "two", "trois"]
    assert len(search_terms([" ".join(map(str, range(MAX_TERMS + 10)))])) == MAX_TERMS
    assert search_terms(["x" * 100]) == ["x" * MAX_TERM_CHARS]
    assert len(query_words("a " * 50)) == MAX_QUERY_WORDS


@pytest.mark.parametrize("word", ["zolw", "ZOLW", "a.b*", "(", "\\d"])
def test_a_normalised_word_matches_its_original_text(word: str) -> None:
    assert re.search(accent_insensitive_pattern(normalised(word)), word, re.IGNORECASE)
    assert re.search(accent_insensitive_pattern("zolw"), "Żółw", re.IGNORECASE)


def test_an_excerpt_is_one_line_around_the_word() -> None:
    text = f"{'before ' * 20}the\nŻółw{' behind' * 20}"
    shown = excerpt(text, ["zolw"])
    assert shown is not None
    assert "the Żółw behind" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert excerpt(text, ["nothing"]) is None
