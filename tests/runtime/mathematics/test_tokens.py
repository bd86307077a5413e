"""Tokens of expressions in English and Polish notation."""

from __future__ import annotations

from fractions import Fraction

import pytest

from runtime.mathematics.errors import ExpressionRefused
from runtime.mathematics.tokens import END, MAX_CHARACTERS, MAX_TOKENS, normalise, tokens


def texts(text: str, language: str = "en") -> list[str]:
    return [each.text for each in tokens(normalise(text), language)][:-1]


def test_typeset_characters_are_typed() -> None:
    assert normalise("x² − 5·π ÷ 2") == "x^(2) - 5* pi  / 2"
    assert normalise("a ≤ ∞") == "a <=  oo"


@pytest.mark.parametrize(
    ("text", "language", "value"),
    [
        ("1,200", "en", Fraction(1200)),
        ("1,5", "pl", Fraction(3, 2)),
        ("1.5", "pl", Fraction(3, 2)),
        ("1 200 000", "pl", Fraction(1_200_000)),
        (".5", "en", Fraction(1, 2)),
        ("2e3", "en", Fraction(2000)),
    ],
)
def test_numbers(text: str, language: str, value: Fraction) -> None:
    number, end = tokens(text, language)
    assert (number.number, end.text) == (value, END)


def test_names_are_split_into_functions_and_variables() -> None:
    assert texts("4ac xsinx tg(x_1) e^x") == ["4", "a", "c", "x", "sin", "x", "tan", "(", "x_1", ")", "e", "^", "x"]
    assert [each.is_name for each in tokens("2x", "en")] == [False, True, False]


@pytest.mark.parametrize("text", ["2 # 3", "hello", "x" * 20, "max(1,5)"])
def test_unknown_characters_names_and_ambiguous_commas_are_refused(text: str) -> None:
    with pytest.raises(ExpressionRefused) as refused:
        tokens(text, "pl")
    assert not refused.value.problem.is_size


@pytest.mark.parametrize("text", ["1e9999", "1+" * MAX_TOKENS])
def test_large_inputs_are_refused(text: str) -> None:
    with pytest.raises(ExpressionRefused) as refused:
        tokens(text, "en")
    assert refused.value.problem.is_size
    with pytest.raises(ExpressionRefused, match="too long"):
        normalise("1" * (MAX_CHARACTERS + 1))
