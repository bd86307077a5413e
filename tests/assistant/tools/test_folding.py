"""Comparison of names."""

from __future__ import annotations

import pytest

from assistant.tools.folding import folded


@pytest.mark.parametrize(
    ("name", "same"), [("Łódź", "lodz"), ("São Paulo", "SAO PAULO"), ("L’Aquila", "l'aquila"), (" Rzym ", "rzym")]
)
def test_equal_names(name: str, same: str) -> None:
    assert folded(name) == folded(same)


def test_different_names() -> None:
    assert folded("Bielsk") != folded("Bielsko")
