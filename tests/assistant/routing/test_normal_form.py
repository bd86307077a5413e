"""The normal form of text."""

from __future__ import annotations

import pytest

from assistant.routing.normal_form import plain


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
