"""Solutions of equations, systems and inequalities."""

from __future__ import annotations

import time

import pytest

from assistant.tools.mathematics.solving import solve
from assistant.tools.tool import NotFound
from runtime.mathematics.parser import parse


@pytest.mark.parametrize(
    ("equation", "text"),
    [
        ("x^2 - 5x + 6 = 0", "x = 2, x = 3"),
        ("x² − 5x + 6 = 0", "x = 2, x = 3"),
        ("2x + 3 = 7", "x = 2"),
        ("x^2 = 2", "x = -sqrt(2), x = sqrt(2)"),
        ("x^2 + 1 = 0", "x = -i, x = i"),
        ("e^x = 5", "x = ln(5)"),
        ("2^x = 8", "x = 3"),
        ("|x - 1| = 3", "x = -2, x = 4"),
        ("sqrt(x+1) = x", "x = 1/2 + sqrt(5)/2"),
        ("x^3 - 3x + 1 = 0", "x ≈ -1.87938524157, x ≈ 0.347296355334, x ≈ 1.53208888624"),
        ("cos x = x", "x ≈ 0.739085133215"),
        ("sin x = 1/2", "x = 2*pi*n + pi/6, x = 2*pi*n + 5*pi/6, n ∈ ℤ"),
        ("tan x = 1", "x = pi*n + pi/4, n ∈ ℤ"),
        ("x = x + 1", "∅"),
        ("2x = 2x", "x ∈ ℝ"),
        ("x + y = 3; x - y = 1", "x = 2, y = 1"),
        ("x + y = 3, x y = 2", "x = 1, y = 2 / x = 2, y = 1"),
        ("x^2 < 4", "x ∈ (-2, 2)"),
        ("x^2 >= 4", "x ∈ (-∞, -2] ∪ [2, ∞)"),
        ("x^2 < -1", "∅"),
    ],
)
def test_solutions(equation: str, text: str) -> None:
    statements = parse(equation, "en")
    assert solve(statements, ["x", "y"])[1] == text


def test_latex_and_value_of_a_single_solution() -> None:
    assert solve(parse("2x = 3", "en"), ["x"]) == (r"x = \frac{3}{2}", "x = 3/2", 1.5)
    assert solve(parse("cos x = x", "en"), ["x"])[0] == r"x \approx 0.739085133215"


def test_a_formula_with_other_variables() -> None:
    found = solve(parse("a x^2 + b x + c = 0", "en"), ["x"])
    assert found[1] == "x = (-b - sqrt(-4*a*c + b^2))/(2*a), x = (-b + sqrt(-4*a*c + b^2))/(2*a)"


@pytest.mark.parametrize("equation", ["x^100 + x + 1 = 0", "x^100 = 1", "x^300 - x^7 = 2", "a x^90 + x = 1"])
def test_polynomials_with_too_many_roots_are_refused_before_they_are_solved(equation: str) -> None:
    began = time.process_time()
    with pytest.raises(NotFound):
        solve(parse(equation, "en"), ["x"])
    assert time.process_time() - began < 1


def test_roots_of_high_multiplicity_are_found() -> None:
    assert solve(parse("(x-1)^30 (x+2)^20 = 0", "en"), ["x"])[1] == "x = -2, x = 1"
