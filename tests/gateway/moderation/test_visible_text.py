"""Which characters are invisible, and how many visible ones the end of a text has."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from gateway.moderation.visible_text import start_of_last, visible

CHARACTERS = [chr(code) for code in range(sys.maxunicode + 1)]


def test_all_format_characters_are_invisible_and_few_others() -> None:
    invisible = {each for each in CHARACTERS if not visible(each)}
    assert {each for each in CHARACTERS if unicodedata.category(each) == "Cf"} <= invisible
    assert {unicodedata.category(each) for each in invisible} == {"Cf", "Cn", "Cs", "Lo", "Mn"}
    assert sorted(each for each in invisible if unicodedata.category(each) == "Lo") == [*"\u115f\u1160\u3164\uffa0"]


def test_the_normal_form_of_visible_characters_is_visible() -> None:
    normal = unicodedata.normalize("NFKC", "\n".join(visible("".join(CHARACTERS))))
    assert visible(normal) == normal


def test_what_is_left() -> None:
    assert visible("a\u00ad\ufe0f\u3164b\U000e01efc ") == "abc "


@pytest.mark.parametrize(
    ("text", "count", "start"),
    [
        ("", 2, 0),
        ("a", 2, 0),
        ("abc", 2, 1),
        ("ab\u200bc", 2, 1),
        ("abc\u200b\ufe0f", 2, 1),
        ("a\u200b\u200bb", 1, 3),
        ("\u200ba\u200b", 2, 0),
    ],
)
def test_the_start_of_the_last_characters(text: str, count: int, start: int) -> None:
    assert start_of_last(text, count) == start
