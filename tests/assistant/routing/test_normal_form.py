"""The normal form of text."""

from __future__ import annotations

import pytest

from assistant.routing.normal_form import MAX_CHARACTERS, cut, plain


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Zażółć GĘŚLĄ jaźń", "zazolc gesla jazn"),
        ("  A \n b\t", "a b"),
        ("x² − 1", "x² - 1"),
        ("Łódź’s", "lodz's"),
        ("", ""),
    ],
)
def test_plain(text: str, normal: str) -> None:
    assert plain(text) == normal


def test_a_longer_text_is_cut_in_its_middle() -> None:
    assert cut("a" * MAX_CHARACTERS) == "a" * MAX_CHARACTERS
    assert cut("abcdefgh", 4) == "ab gh"
