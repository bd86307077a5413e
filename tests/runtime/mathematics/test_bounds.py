"""Bounds: what would be too large is refused before it is computed, what is not is allowed."""

from __future__ import annotations

import time

import pytest

from runtime.mathematics import bounds
from runtime.mathematics.errors import ExpressionRefused
from runtime.mathematics.parser import parse

REFUSED = [
    "10**10**10",
    "10^10^10",
    "factorial(10**9)",
    "factorial(10^9)",
    "1000000000!",
    "2^2^2^2^2^2",
    "9^9^9",
    "9^9^9^9",
    "(9^9)^(9^9)",
    "((((9^9)^9)^9)^9)^9",
    "100!!",
    "((5!)!)!",
    "gamma(10^8)",
    "gamma(10^8 + 0.5)",
    "binomial(10^9, 5*10^8)",
    "binomial(10^6, 2)^100",
    "sum(k, k, 1, 1000000000)",
    "sum(sum(k j, k, 1, 1000), j, 1, 1000)",
    "sum(k!, k, 1, 1999)",
    "sum(k^k, k, 1, 2000)",
    "e^e^e^e",
    "exp(exp(exp(exp(5))))",
    "exp(10^30)",
    "sinh(10^12)",
    "cosh(-10^12)",
    "0.001^100000",
    "2^-100000000",
    "10^100000!",
    "(x+1)^100000",
    "(x+y+z)^1000",
    "x^(10^10)",
    "x^-99999",
    "i^(10^100)",
    "(1+i)^(10^7)",
    "(10^3999)*(10^3999)",
    "99999!-99998!",
    "mod(10^10^10, 7)",
    "sqrt(10^10^10)",
    "gcd(10^10^10, 2)",
    "floor(10^10^10)",
    "pi^10^10",
    "root(10^10^10, 2)",
    "log10(10^10^10)",
    "1/10^10^10",
    "x = 10^10^10",
    "sum(1/k, k, -1000000, 1000000)",
    "(" * 700 + "1" + ")" * 700,
    "(" * 1400 + "1",
    "-" * 1400 + "1",
    "sin " * 300 + "1",
    "2^" * 400 + "2",
    "[[1, 2], [3, 4]]^(10^9)",
    "matrix(100000, 100000)",
    "+".join(f"{power} x^{power}" for power in range(101)) + " = 0",
    "+".join(f"x^{each} sin({each}x) exp({each}x)" for each in range(1, 40)),
]

ALLOWED = [
    "2^1000",
    "1000!",
    "e^1000",
    "e^(i pi)",
    "x^300",
    "x^-2",
    "2^x",
    "x^x",
    "(x+1)^20",
    "1.05^30",
    "3.7^2.123456",
    "2^0.5",
    "sum(k^2, k, 1, 100)",
    "sum(1/k, k, 1, 50)",
    "binomial(50, 25)",
    "factorial(factorial(5))",
    "10^-12",
    "exp(-x^2)",
    "exp(50)",
    "gamma(x)",
    "factorial(x)",
    "sqrt(123456789)",
    "a x^2 + b x + c = 0",
    "1000000 * 1.07^40",
]


def check(text: str) -> None:
    for each in parse(text, "en"):
        bounds.check(each)


@pytest.mark.parametrize("text", REFUSED)
def test_refused_at_once(text: str) -> None:
    began = time.thread_time()
    with pytest.raises(ExpressionRefused):
        check(text)
    assert time.thread_time() - began < 2


@pytest.mark.parametrize("text", ALLOWED)
def test_allowed(text: str) -> None:
    check(text)
