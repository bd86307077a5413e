"""SymPy expressions of syntax trees, and their text."""

from __future__ import annotations

import pytest
import sympy

from assistant.tools.mathematics import symbolic
from assistant.tools.tool import NotFound, TooLarge
from runtime.mathematics.parser import parse_expression
from runtime.mathematics.sympy_expressions import Expr, convert, symbols


def converted(text: str) -> Expr:
    node = parse_expression(text, "en")
    return convert(node, symbols(node))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1/3 + 1/6", "1/2"),
        ("x*x - -2", "x^2 + 2"),
        ("ln(x) + e^x", "exp(x) + ln(x)"),
        ("i*i", "-1"),
        ("cbrt(-8)", "-2"),
        ("sum(k^2, k, 1, 3)", "14"),
        ("mod(17, 5) + min(2, 1)", "3"),
        ("|x|", "abs(x)"),
        ("oo", "∞"),
    ],
)
def test_text(text: str, written: str) -> None:
    assert symbolic.text(converted(text)) == written


def test_sets_are_written_as_intervals() -> None:
    found = sympy.Union(sympy.Interval.open(-sympy.oo, 1), sympy.Interval(2, 3), sympy.FiniteSet(5))
    assert symbolic.text(found) == "(-∞, 1) ∪ [2, 3] ∪ {5}"
    assert symbolic.text(sympy.S.EmptySet) == "∅"
    assert symbolic.text(sympy.S.Reals) == "ℝ"


def test_what_is_undefined_or_too_long_is_refused() -> None:
    with pytest.raises(NotFound):
        symbolic.text(converted("1/0"))
    with pytest.raises(TooLarge):
        symbolic.text(sympy.Add(*sympy.symbols(f"long:{symbolic.MAX_RESULT_CHARACTERS // 4}")))


def test_numeric_values() -> None:
    assert symbolic.numeric(converted("sqrt(2)")) == pytest.approx(1.41421356237310)
    for text in ("x", "i", "10^400"):
        assert symbolic.numeric(converted(text)) is None


def test_latex() -> None:
    assert symbolic.latex(converted("ln(x)/2")) == r"\frac{\ln{\left(x \right)}}{2}"
