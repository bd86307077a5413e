"""Comparison of names."""

from __future__ import annotations

import pytest

from assistant.tools.folding import folded, lenient_pattern, without_diacritics


@pytest.mark.parametrize(
    ("name", "same"), [("Łódź", "lodz"), ("São Paulo", "SAO PAULO"), ("L’Aquila", "l'aquila"), (" Rzym ", "rzym")]
)
def test_equal_names(name: str, same: str) -> None:
    assert folded(name) == folded(same)


def test_different_names() -> None:
    assert folded("Bielsk") != folded("Bielsko")


def test_each_character_has_its_own_plain_one() -> None:
    text = "W Łodzi, São Paulo’s İstanbul ½ ①"
    assert without_diacritics(text).startswith("w lodzi, sao paulo's i")
    assert len(without_diacritics(text)) == len(text)


def test_patterns_match_what_is_typed_without_diacritics() -> None:
    pattern = lenient_pattern(r"zrób [ąę\]]? ?(\[ł)+[^\W\d_ś]")
    assert pattern.fullmatch("zrób ę [łx")
    assert pattern.fullmatch("zrob a [l[lx")
    assert not pattern.fullmatch("zrob a [l[ls")
