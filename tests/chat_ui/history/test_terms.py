"""What conversations are found by."""

from __future__ import annotations

import re

import pytest

from chat_ui.history.bounds import LONGEST_TERM, MOST_TERMS, MOST_WORDS
from chat_ui.history.terms import excerpt, folded, pattern_of, terms_of, words_of


@pytest.mark.parametrize(
    ("text", "plain"),
    [("Zażółć GĘŚLĄ Jaźń", "zazolc gesla jazn"), ("Straße", "strasse"), ("ﬁne Ⅷ", "fine viii"), ("Øre", "ore")],
)
def test_case_accents_and_strokes_make_no_difference(text: str, plain: str) -> None:
    assert folded(text) == plain


def test_terms_are_different_words_and_bounded() -> None:
    assert terms_of(["One two, one!", "trois"]) == ["one", "two", "trois"]
    assert len(terms_of([" ".join(map(str, range(MOST_TERMS + 10)))])) == MOST_TERMS
    assert terms_of(["x" * 100]) == ["x" * LONGEST_TERM]
    assert len(words_of("a " * 50)) == MOST_WORDS


@pytest.mark.parametrize("word", ["zolw", "ZOLW", "a.b*", "(", "\\d"])
def test_a_folded_word_finds_the_text_that_it_was_made_of(word: str) -> None:
    assert re.search(pattern_of(folded(word)), word, re.IGNORECASE)
    assert re.search(pattern_of("zolw"), "Żółw", re.IGNORECASE)


def test_an_excerpt_is_one_line_around_the_word() -> None:
    text = f"{'before ' * 20}the\nŻółw{' behind' * 20}"
    shown = excerpt(text, ["zolw"])
    assert shown is not None
    assert "the Żółw behind" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert excerpt(text, ["nothing"]) is None
