"""Exact values of arithmetic expressions."""

from __future__ import annotations

from fractions import Fraction

import pytest

from benchmarks.test_time_compute.expressions import InvalidExpression, evaluate


def test_values_are_exact_and_numbers_are_in_order() -> None:
    assert evaluate(" 8 / (3 - 8/3)") == (Fraction(24), [8, 3, 8, 3])
    assert evaluate("1/3") == (Fraction(1, 3), [1, 3])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2 **3",
        "2 // 3",
        "-2",
        "1 / (2 - 2)",
        "x + 1",
        "2.5 + 1",
        "True + 1",
        "(1",
        "1 +" * 40 + "1",
        "abs(1)",
        "007",
    ],
)
def test_other_texts_have_no_value(text: str) -> None:
    with pytest.raises(InvalidExpression):
        evaluate(text)
