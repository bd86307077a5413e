"""Exact values of arithmetic expressions of whole numbers, as in answers to a 24-game."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from fractions import Fraction

MAX_LENGTH = 60
"""Characters of the longest expression that is evaluated."""
_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class InvalidExpression(Exception):
    """Raised when a text is no expression of whole numbers, `+ - * /` and parentheses, or divides by zero."""


def evaluate(text: str) -> tuple[Fraction, list[int]]:
    """Return the value of an expression, and the numbers in it, in order.

    Raises:
        InvalidExpression: it has no value.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidExpression("too long")
    numbers: list[int] = []
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, numbers), numbers
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError) as error:
        raise InvalidExpression(str(error)) from error


def _value(node: ast.expr, numbers: list[int]) -> Fraction:
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            numbers.append(number)
            return Fraction(number)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, numbers), _value(right, numbers))
    raise InvalidExpression(ast.dump(node))
