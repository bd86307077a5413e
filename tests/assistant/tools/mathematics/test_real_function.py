"""Real values, and points of plots with their poles."""

from __future__ import annotations

import math

import pytest

from assistant.tools.mathematics.real_function import MAX_POINTS, crossing, points, value
from runtime.mathematics.expression import Node
from runtime.mathematics.parser import parse_expression


def node(text: str) -> Node:
    return parse_expression(text, "en")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x^2 + 1", 5.0),
        ("sqrt(x + 2)", 2.0),
        ("root(-8, 3)", -2.0),
        ("sum(k*x, k, 1, 3)", 12.0),
        ("5! + mod(7, 4)", 123.0),
        ("gcd(12, 18) + max(1, x)", 8.0),
        ("|-x| - ceil(1.2)", 0.0),
        ("2 pi", 2 * math.pi),
    ],
)
def test_values(text: str, expected: float) -> None:
    assert value(node(text), {"x": 2.0}) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["1/(x-2)", "ln(-x)", "sqrt(-x)", "(-x)^0.5", "y", "10^x^x^x^x"])
def test_no_values(text: str) -> None:
    assert value(node(text), {"x": 2.0}) is None


def test_points_are_in_order_and_bounded() -> None:
    found = points(node("x^2"), "x", -3, 3)
    assert len(found) <= MAX_POINTS
    assert [x for x, _ in found] == sorted(x for x, _ in found)
    assert (found[0], found[-1]) == ((-3.0, 9.0), (3.0, 9.0))
    assert (0.0, 0.0) in found


@pytest.mark.parametrize("text", ["1/x", "1/(x-0.123)", "1/(x-0.123)^2", "tan(x + pi/2)"])
def test_poles_interrupt_a_graph(text: str) -> None:
    assert any(y is None for _, y in points(node(text), "x", -1, 1))


def test_zeros_do_not_interrupt_a_graph() -> None:
    assert all(y is not None for _, y in points(node("x^3 - 0.1"), "x", -1, 1))


def test_crossings() -> None:
    assert crossing(lambda x: x - 0.3, 0, 1, -0.3) == pytest.approx(0.3)
    assert crossing(lambda x: 1 / (x - 0.3) if x != 0.3 else None, 0, 1, 1 / -0.3) is None
