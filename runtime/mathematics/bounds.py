"""Refuses expressions whose numbers could become too large, or sums too long, by an estimate before computing.

Python's integers have no limit, so `10^10^10` or `factorial(10^9)` would fill the memory while they are still exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from runtime.mathematics.errors import ExpressionRefused, Problem
from runtime.mathematics.expression import (
    CONSTANTS,
    Binary,
    Call,
    Name,
    Negation,
    Node,
    Number,
    Statement,
    children,
)

MAX_DIGITS = 4_000
"""Most digits of an exact number; Python converts no longer ones to text."""
MAX_MAGNITUDE = 100_000.0
"""Most decimal digits before the point of an inexact value, such as `e^1000`."""
MAX_FACTORIAL = 1_400
MAX_BINOMIAL = 5_000
MAX_SYMBOLIC_EXPONENT = 300
"""Most of an exponent whose base has variables."""
MAX_TERMS = 2_000
"""Most terms of sums, nested ones multiplied."""


@dataclass(frozen=True)
class Size:
    """Upper bounds of a value: decimal logarithm of its absolute value, and digits of its exact representation."""

    magnitude: float
    digits: float
    symbolic: bool = False
    """Whether it has free variables; then the bounds are of its coefficients."""


def check(statement: Statement) -> None:
    """Check that the numbers of an expression or equation can't become too large to compute, nor its sums too long.

    Raises:
        ExpressionRefused: they can.
    """
    if isinstance(statement, Number | Name | Negation | Binary | Call):
        _size(statement, {}, 1)
        return
    for child in children(statement):
        _size(child, {}, 1)


def _size(node: Node, bound: Mapping[str, float], terms: int) -> Size:
    if isinstance(node, Number):
        size = _of_number(node.value)
    elif isinstance(node, Name):
        size = _of_name(node.name, bound)
    elif isinstance(node, Negation):
        size = _size(node.operand, bound, terms)
    elif isinstance(node, Binary):
        size = _of_binary(node.operator, _size(node.left, bound, terms), _size(node.right, bound, terms))
    elif node.function == "sum":
        size = _of_sum(node, bound, terms)
    else:
        size = _of_call(node.function, [_size(each, bound, terms) for each in node.arguments])
    if size.digits > MAX_DIGITS or size.magnitude > MAX_MAGNITUDE:
        raise ExpressionRefused(Problem.TOO_BIG)
    return size


def _of_number(value: Fraction) -> Size:
    digits = max(_log10(value.numerator), _log10(value.denominator))
    return Size(_log10(value.numerator) - _log10(value.denominator), digits)


def _log10(value: int) -> float:
    return math.log10(abs(value)) if value else 0.0


def _of_name(name: str, bound: Mapping[str, float]) -> Size:
    if name in bound:
        return Size(bound[name], bound[name])
    return Size(0.5, 0.5, symbolic=name not in CONSTANTS)


def _of_binary(operator: str, left: Size, right: Size) -> Size:
    symbolic = left.symbolic or right.symbolic
    digits = left.digits + right.digits
    if operator in "+-":
        return Size(max(left.magnitude, right.magnitude) + 0.31, digits + 0.31, symbolic)
    if operator == "*":
        return Size(left.magnitude + right.magnitude, digits, symbolic)
    if operator == "/":
        return Size(left.magnitude + right.digits, digits, symbolic)
    return _of_power(left, right)


def _of_power(base: Size, exponent: Size) -> Size:
    if exponent.symbolic:
        return Size(base.digits + exponent.digits, base.digits + exponent.digits, symbolic=True)
    if exponent.magnitude > math.log10(MAX_MAGNITUDE):
        raise ExpressionRefused(Problem.TOO_BIG)
    times = 10**exponent.magnitude
    if base.symbolic and times > MAX_SYMBOLIC_EXPONENT * 1.001:
        raise ExpressionRefused(Problem.TOO_BIG)
    return Size(base.digits * times, base.digits * times, base.symbolic)


def _of_call(function: str, arguments: list[Size]) -> Size:
    first = arguments[0]
    symbolic = any(each.symbolic for each in arguments)
    digits = sum(each.digits for each in arguments)
    if function in ("factorial", "gamma"):
        return first if symbolic else _of_factorial(first)
    if function == "binomial":
        return _of_binomial(arguments)
    if function in ("exp", "sinh", "cosh"):
        return Size(10 ** min(first.magnitude, 9.0) * math.log10(math.e), first.digits, symbolic)
    if function in ("abs", "floor", "ceil", "gcd", "lcm", "min", "max", "mod"):
        return Size(digits if function == "lcm" else max(each.magnitude for each in arguments) + 0.1, digits, symbolic)
    if function in ("sqrt", "cbrt", "root"):
        return Size(digits, digits, symbolic)
    return Size(2.0 + first.digits, first.digits, symbolic)


def _of_factorial(argument: Size) -> Size:
    if argument.magnitude > math.log10(MAX_FACTORIAL) + 0.001:
        raise ExpressionRefused(Problem.TOO_BIG)
    digits = math.lgamma(10**argument.magnitude + 2) / math.log(10)
    return Size(digits, digits + argument.digits)


def _of_binomial(arguments: list[Size]) -> Size:
    largest = max((each.magnitude for each in arguments if not each.symbolic), default=0.0)
    if largest > math.log10(MAX_BINOMIAL) + 0.001:
        raise ExpressionRefused(Problem.TOO_BIG)
    digits = 10**largest * math.log10(2) + sum(each.digits for each in arguments)
    return Size(digits, digits, any(each.symbolic for each in arguments))


def _of_sum(call: Call, bound: Mapping[str, float], terms: int) -> Size:
    body, index, first, last = call.arguments
    if not isinstance(index, Name):
        raise ExpressionRefused(Problem.UNREADABLE, at="sum")
    from_number, to_number = integer(first), integer(last)
    if from_number is None or to_number is None:
        raise ExpressionRefused(Problem.UNREADABLE, at="sum")
    count = max(0, to_number - from_number + 1)
    if count * terms > MAX_TERMS:
        raise ExpressionRefused(Problem.TOO_BIG)
    largest = max(_log10(from_number), _log10(to_number)) + 0.001
    size = _size(body, {**bound, index.name: largest}, max(1, count) * terms)
    return Size(size.magnitude + math.log10(count + 1), size.digits * max(1, min(count, 100)) + 4, size.symbolic)


def integer(node: Node) -> int | None:
    """Return the integer that a node of an expression writes, with or without a sign; `None` if it is no integer."""
    if isinstance(node, Negation):
        below = integer(node.operand)
        return None if below is None else -below
    if isinstance(node, Number) and node.value.denominator == 1:
        return node.value.numerator
    return None
