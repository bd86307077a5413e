"""SymPy expressions of syntax trees."""

from __future__ import annotations

import pytest
import sympy

from runtime.mathematics.parser import parse_expression
from runtime.mathematics.sympy_expressions import convert, symbol, symbols

X = sympy.Symbol("x", real=True)


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("1/3 + 0.5", sympy.Rational(5, 6)),
        ("-x^2 / 2", -(X**2) / 2),
        ("i*i", sympy.Integer(-1)),
        ("log(x, 2)", sympy.log(X, 2)),
        ("root(-8; 3)", sympy.Integer(-2)),
        ("sum(k x, k, 1, 3)", 6 * X),
    ],
)
def test_expressions(text: str, expression: object) -> None:
    node = parse_expression(text, "en")
    assert convert(node, symbols(node)) == expression


def test_symbols_are_real_unless_asked_for_otherwise() -> None:
    assert symbol("x").is_real
    assert symbol("x", real=False).is_real is None
    assert list(symbols(parse_expression("b + a", "en"))) == ["a", "b"]
