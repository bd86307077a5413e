from __future__ import annotations

import pytest

from inference_worker.search.latex import MAX_DEPTH, NotTranslated, typed
from runtime.mathematics.parser import parse_expression


@pytest.mark.parametrize(
    ("latex", "expression"),
    [
        (r"\frac{1}{2}x", "(1/2)x"),
        (r"\frac12", "1/2"),
        (r"\frac \pi 2", "pi/2"),
        (r"\sqrt2 \cdot \sqrt{x + 1}", "sqrt(2)*sqrt(x+1)"),
        (r"\sqrt[3]{x+1}", "root(x+1; 3)"),
        (r"x^{n - 1} \times e^{i\pi}", "x^(n-1)*e^(i pi)"),
        (r"x_1 + x_{12}", "x_1 + x_12"),
        (r"\log_{10} x + \log_2(8) + \log x", "log10(x) + log2(8) + ln(x)"),
        (r"\sin^2 x - \arctan{y}", "sin(x)^2 - atan(y)"),
        (r"mgh", "m*g*h"),
        (r"sqrt(2)/2 + sin x", "sqrt(2)/2 + sin(x)"),
        (r"45^\circ + 30^{\circ}", "45° + 30°"),
        (r"\binom{5}{2} \div 3!", "binomial(5; 2)/3!"),
        (r"\lfloor x \rfloor + \lvert y \rvert", "floor(x) + |y|"),
        (r"-\infty", "-oo"),
        (r"5\%", "5%"),
        (r"2\frac{x}{3}", "2*(x/3)"),
    ],
)
def test_latex_is_the_typed_expression(latex: str, expression: str) -> None:
    assert parse_expression(typed(latex), "en") == parse_expression(expression, "en")


@pytest.mark.parametrize(
    "latex",
    [
        r"\frac{1}",
        r"\frac{1}{2",
        r"\sqrt",
        r"x_",
        r"2\frac{1}{3}",  # a mixed number in some countries, a product in others
        r"2 \frac13",
        r"\log_3 9",
        r"\begin{pmatrix}1\end{pmatrix}",
        r"7 \pmod{3}",
        r"\input{/etc/passwd}",
        r"\{1\}",
        r"{" * (MAX_DEPTH + 2) + "x" + "}" * (MAX_DEPTH + 2),
        r"\sqrt" * 1000 + "2",
        r"\frac" * 1000,
    ],
)
def test_other_latex_is_refused(latex: str) -> None:
    with pytest.raises(NotTranslated):
        typed(latex)
