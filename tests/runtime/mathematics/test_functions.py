"""Names of functions."""

from __future__ import annotations

import pytest

from runtime.mathematics.functions import ALIASES, FUNCTIONS, INVERSES, canonical


@pytest.mark.parametrize(
    ("name", "function"), [("SIN", "sin"), ("tg", "tan"), ("arcctg", "acot"), ("NWD", "gcd"), ("pierwiastek", "sqrt")]
)
def test_canonical_names(name: str, function: str) -> None:
    assert canonical(name) == function


@pytest.mark.parametrize("name", ["", "x", "eval", "__import__", "alpha"])
def test_other_names_are_no_functions(name: str) -> None:
    assert canonical(name) is None


def test_aliases_and_inverses_name_functions() -> None:
    assert set(ALIASES.values()) | set(INVERSES.values()) | set(INVERSES) <= set(FUNCTIONS)
    assert not set(ALIASES) & set(FUNCTIONS)
