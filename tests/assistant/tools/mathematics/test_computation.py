"""Results of computations, compared with known ones and, for calculus, with numeric values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from assistant.tools.mathematics import real_function
from assistant.tools.mathematics.computation import outcome
from assistant.tools.mathematics.order import Computed, Failed, Operation, Order
from runtime.mathematics.parser import parse_expression


def compute(operation: str, expression: str, language: str = "en", **more: Any) -> Computed:
    found = outcome(Order(Operation(operation), expression, language, **more))
    assert isinstance(found, Computed), found
    return found


def simpson(function: Callable[[float], float], steps: int = 2_000) -> float:
    """Integrate from 0 to 1."""
    weights = [1, *([4, 2] * (steps // 2 - 1)), 4, 1]
    return math.fsum(weight * function(n / steps) for n, weight in enumerate(weights)) / steps / 3


@pytest.mark.parametrize(
    ("expression", "text", "numeric"),
    [
        ("2+2", "4", 4),
        ("7*8-6", "50", 50),
        ("15% * 240", "36", 36),
        ("2.5*4.1", "10.25", 10.25),
        ("0.1+0.2", "0.3", 0.3),
        ("1/3+1/6", "1/2", 0.5),
        ("10/2/5", "1", 1),
        ("2^3^2", "512", 512),
        ("-3^2", "-9", -9),
        ("(-3)^2", "9", 9),
        ("2^-2", "1/4", 0.25),
        ("sqrt 8", "2*sqrt(2)", 2 * math.sqrt(2)),
        ("cbrt(-27)", "-3", -3),
        ("root(32, 5)", "2", 2),
        ("sin(pi/6)", "1/2", 0.5),
        ("cos 60°", "1/2", 0.5),
        ("ln(e^3)", "3", 3),
        ("log2 1024", "10", 10),
        ("log10(0.001)", "-3", -3),
        ("log(8, 2)", "3", 3),
        ("5!", "120", 120),
        ("binomial(10, 3)", "120", 120),
        ("gcd(84, 36)", "12", 12),
        ("lcm(4, 6)", "12", 12),
        ("mod(17, 5)", "2", 2),
        ("|3-10|", "7", 7),
        ("floor(-2.5)", "-3", -3),
        ("max(3, 7, 5)", "7", 7),
        ("sum(k^2, k, 1, 10)", "385", 385),
        ("sum(1/2^k, k, 0, 10)", "2047/1024", 2047 / 1024),
        ("i^2", "-1", -1),
        ("1e3 + 1", "1001", 1001),
        ("1,234 + 1", "1235", 1235),
        ("sin^2(1) + cos^2(1)", "1", 1),
        ("e^(i pi) + 1", "0", 0),
        ("arctan 1", "pi/4", math.pi / 4),
    ],
)
def test_values(expression: str, text: str, numeric: float) -> None:
    found = compute("evaluate", expression)
    assert found.result_text == text
    assert found.numeric == pytest.approx(numeric, abs=1e-14)


def test_large_numbers_are_exact() -> None:
    assert compute("evaluate", "100!").result_text == str(math.factorial(100))
    assert compute("evaluate", "2^1000").result_text == str(2**1000)
    assert compute("evaluate", "1400!").numeric is None


def test_polish_notation() -> None:
    assert compute("evaluate", "3,5 * 2", "pl").result_text == "7"
    assert compute("evaluate", "1 000 000 / 8", "pl").result_text == "125000"
    assert compute("evaluate", "log 100 + tg(pi/4)", "pl").result_text == "3"
    assert compute("evaluate", "log(8; 2)", "pl").result_text == "3"
    assert compute("evaluate", "nwd(84; 36) : 4", "pl").result_text == "3"


@pytest.mark.parametrize(
    ("statement", "language", "text"),
    [("2+2=4", "en", "true"), ("2+2=5", "en", "false"), ("1/3 < 0.33", "en", "false"), ("2^10 > 1000", "pl", "prawda")],
)
def test_statements_without_variables_are_compared(statement: str, language: str, text: str) -> None:
    assert compute("evaluate", statement, language).result_text == text


@pytest.mark.parametrize(
    ("operation", "expression", "text"),
    [
        ("simplify", "(x^2-1)/(x-1)", "x + 1"),
        ("simplify", "sin(x)^2 + cos(x)^2", "1"),
        ("simplify", "2x + 3x", "5*x"),
        ("simplify", "√(x²)", "abs(x)"),
        ("expand", "(x+1)^3", "x^3 + 3*x^2 + 3*x + 1"),
        ("expand", "(a-b)(a+b)", "a^2 - b^2"),
        ("factor", "x^2-5x+6", "(x - 3)*(x - 2)"),
        ("factor", "360", "2^3*3^2*5"),
        ("evaluate", "x + x", "2*x"),
    ],
)
def test_rewriting(operation: str, expression: str, text: str) -> None:
    assert compute(operation, expression).result_text == text


def test_the_unknown_can_be_named() -> None:
    assert compute("solve", "p v = n t", variable="v").result_text == "v = n*t/p"
    assert compute("differentiate", "x t^2", variable="t").result_text == "2*t*x"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("x^3 + 2x", "3*x^2 + 2"),
        ("sin x cos x", "cos(2*x)"),
        ("ln x", "1/x"),
        ("e^(2x)", "2*exp(2*x)"),
        ("|x|", "sign(x)"),
        ("y = x^2", "2*x"),
        ("f(x) = x^2", "2*x"),
    ],
)
def test_derivatives(expression: str, text: str) -> None:
    assert compute("differentiate", expression).result_text == text


def test_higher_derivatives() -> None:
    found = compute("differentiate", "x^5", order=3)
    assert found.result_text == "60*x^2"
    assert found.input_latex == r"\frac{d^{3}}{dx^{3}} \left(x^{5}\right)"


@pytest.mark.parametrize(
    "expression",
    ["x^2 sin x", "1/x", "tan x", "e^(-x^2)", "1/(1+x^4)", "x e^x cos x", "ln x / x", "sqrt(1 - x^2)", "1/(x^2-1)"],
)
def test_antiderivatives_have_the_integrand_as_their_slope(expression: str) -> None:
    found = compute("integrate", expression)
    assert found.result_text.endswith(" + C")
    antiderivative = parse_expression(found.result_text.removesuffix(" + C"), "en")
    integrand = parse_expression(expression, "en")
    for x in (0.3, 0.7):
        high, low = (real_function.value(antiderivative, {"x": x + step}) for step in (1e-5, -1e-5))
        assert high is not None
        assert low is not None
        assert (high - low) / 2e-5 == pytest.approx(real_function.value(integrand, {"x": x}), rel=1e-6)


@pytest.mark.parametrize(
    ("expression", "lower", "upper", "text", "numeric"),
    [
        ("x^2", "0", "1", "1/3", 1 / 3),
        ("sin x", "0", "pi", "2", 2),
        ("e^(-x^2)", "-oo", "oo", "sqrt(pi)", math.sqrt(math.pi)),
        ("1/x", "0", "1", "∞", None),
        ("sin(x^2)^3 + 1", "0", "1", "≈ 1.10395718267", simpson(lambda x: math.sin(x * x) ** 3 + 1)),
    ],
)
def test_definite_integrals(expression: str, lower: str, upper: str, text: str, numeric: float | None) -> None:
    found = compute("integrate", expression, lower=lower, upper=upper)
    assert found.result_text == text
    assert found.numeric == (numeric if numeric is None else pytest.approx(numeric))


def test_latex() -> None:
    found = compute("integrate", "x^2 sin x")
    assert found.input_latex == r"\int x^{2} \sin\left(x\right) \, dx"
    assert r"2 x \sin{\left(x \right)}" in found.result_latex
    assert compute("evaluate", "1/3").result_latex == r"\frac{1}{3}"


@pytest.mark.parametrize(
    ("operation", "expression", "sentence"),
    [
        ("evaluate", "1/0", "UNDEFINED"),
        ("evaluate", "0/0", "UNDEFINED"),
        ("evaluate", "ln 0", "UNDEFINED"),
        ("integrate", "x^x", "NO_CLOSED_FORM"),
        ("integrate", "x = 2", "NO_EQUATION"),
        ("solve", "2 + 3", "NO_VARIABLE"),
        ("solve", "sin(x) + x^2 + 100 = 0", "NO_CLOSED_FORM"),
        ("plot", "x + y", "ONE_VARIABLE"),
        ("plot", "sqrt(-1 - x^2)", "UNDEFINED"),
        ("differentiate", "x; y", "NO_EQUATION"),
    ],
)
def test_failures(operation: str, expression: str, sentence: str) -> None:
    found = outcome(Order(Operation(operation), expression))
    assert isinstance(found, Failed)
    assert found.sentence == sentence


def test_a_plot_has_null_at_poles() -> None:
    plot = compute("plot", "tan x").plot
    assert plot is not None
    assert len(plot.x) == len(plot.y) <= real_function.MAX_POINTS
    poles = [x for x, y in zip(plot.x, plot.y, strict=True) if y is None]
    assert poles == pytest.approx([math.pi * (n + 0.5) for n in range(-3, 3)], abs=1e-6)


@pytest.mark.parametrize(
    ("operation", "expression", "label"),
    [
        ("plot", "y = x^2 - 1", "x^2 - 1"),
        ("differentiate", "x^3", "3*x^2"),
        ("plot", "+".join(f"sin({each}x)" for each in range(1, 12)), "y"),
        ("plot", "+".join(f"sin({each}y)" for each in range(1, 12)), "f(y)"),
    ],
)
def test_a_plot_is_labelled_by_its_function_unless_that_is_long(operation: str, expression: str, label: str) -> None:
    plot = compute(operation, expression).plot
    assert plot is not None
    assert plot.y_label == label


def test_a_plot_has_the_asked_range() -> None:
    plot = compute("plot", "y = x^2", lower="0", upper="2pi").plot
    assert plot is not None
    assert (plot.x[0], plot.x[-1]) == pytest.approx((0, 2 * math.pi))
    assert plot.y[-1] == pytest.approx(4 * math.pi**2)
    assert isinstance(outcome(Order(Operation.PLOT, "x", lower="2", upper="1")), Failed)


def test_calculus_of_one_variable_has_a_plot() -> None:
    assert compute("integrate", "x^2 sin x").plot is not None
    assert compute("differentiate", "x^2").plot is not None
    assert compute("integrate", "x y").plot is None
