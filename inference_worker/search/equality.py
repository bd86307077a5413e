"""Finds equal results of a search's answers with SymPy, in the sandboxed process, which imports this module."""

from __future__ import annotations

import cmath
import hashlib
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import BinaryIO

import msgspec
import sympy

from inference_worker.search.events import Compare
from inference_worker.search.mathematics import read_answer
from runtime.mathematics.expression import Node
from runtime.mathematics.sympy_expressions import RECURSION_LIMIT, Expr, convert, import_deferred, symbols

POINTS = 2
"""Values of the variables at which expressions are computed before SymPy is asked to prove that they are equal."""
TOLERANCE = 1e-9
"""Relative difference of values that may still be equal."""

import_deferred()


def encoded_equals(order: bytes, _source: BinaryIO) -> Iterator[bytes]:
    """Compare the results of one `Compare` command, encoded as MessagePack: the work of the sandboxed process.

    Yields, encoded, for each new result the first result that it is equal to.
    """
    sys.setrecursionlimit(RECURSION_LIMIT)
    for found in equals(msgspec.msgpack.decode(order, type=Compare)):
        yield msgspec.msgpack.encode(found)


def equals(command: Compare) -> Iterator[str]:
    """Yield, for each new result of a `Compare` command, the first result that it is equal to as mathematics.

    That is a known result, an earlier new one, or the result itself.
    """
    sympy.core.random.seed(0)
    different = [_Result(text) for text in command.known]
    for text in command.new:
        result = _Result(text)
        equal = next((each for each in different if each.equals(result)), None)
        if equal is None:
            different.append(result)
        yield text if equal is None else equal.text


class _Result:
    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _values(self) -> tuple[str, list[_Value]] | None:
        """Kind and elements; `None` if one of them is not defined."""
        answer = read_answer(self.text)
        if answer is None:
            return None
        try:
            values = [_Value(element) for element in answer.elements]
        except (MemoryError, OSError, ImportError):
            raise  # of the process, not of the expression
        except Exception:  # noqa: BLE001 - SymPy raises many kinds where an expression has no meaning
            return None
        return None if any(value.undefined for value in values) else (answer.kind, values)

    def equals(self, other: _Result) -> bool:
        """Return whether both results are mathematics of the same kind, with equal elements."""
        if self._values is None or other._values is None:
            return False
        (kind, ours), (other_kind, theirs) = self._values, other._values
        if kind != other_kind or len(ours) != len(theirs):
            return False
        return all(map(_Value.equals, ours, theirs)) if kind else _is_permutation(ours, theirs)


class _Value:
    def __init__(self, node: Node) -> None:
        self._expression: Expr = convert(node, symbols(node))
        self.undefined = bool(self._expression.has(sympy.zoo, sympy.nan))

    @cached_property
    def _numbers(self) -> list[complex | None]:
        """Values at the points; `None` where there is none that is finite."""
        return [self._number(point) for point in range(POINTS)]

    def _number(self, point: int) -> complex | None:
        variables = {each: _coordinate(str(each), point) for each in self._expression.free_symbols}
        try:
            number = complex(self._expression.evalf(20, subs=variables))
        except (TypeError, ValueError, ArithmeticError):
            return None
        return number if cmath.isfinite(number) else None

    def equals(self, other: _Value) -> bool:
        """Return whether SymPy finds both expressions equal; false if it finds no answer."""
        if self._expression == other._expression:
            return True
        for ours, theirs in zip(self._numbers, other._numbers, strict=True):
            if ours is not None and theirs is not None and abs(ours - theirs) > TOLERANCE * max(1.0, abs(ours)):
                return False
        try:
            return self._expression.equals(other._expression) is True
        except (MemoryError, OSError, ImportError):
            raise
        except Exception:  # noqa: BLE001 - SymPy raises many kinds where it has no method for an expression
            return False


def _coordinate(variable: str, point: int) -> Expr:
    """Return the value of a variable at a point: between 0 and 2 at the even points, else between -2 and 0."""
    digest = hashlib.sha256(f"{variable}:{point}".encode()).digest()
    value = sympy.Rational(int.from_bytes(digest[:4], "big"), 2**31)
    return -value if point % 2 else value


def _is_permutation(ours: Sequence[_Value], theirs: Sequence[_Value]) -> bool:
    left = list(theirs)
    for value in ours:
        equal = next((each for each in left if value.equals(each)), None)
        if equal is None:
            return False
        left.remove(equal)
    return True
