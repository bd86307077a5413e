"""Converts syntax trees to SymPy expressions and these to text and LaTeX. Imported by the sandboxed process only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy
from sympy.printing.str import StrPrinter

from assistant.tools import sentences as shared_sentences
from assistant.tools.mathematics import sentences
from assistant.tools.mathematics.bounds import integer
from assistant.tools.mathematics.expression import Binary, Call, Name, Negation, Node, Number, free_variables
from assistant.tools.tool import InvalidArguments, NotFound, TooLarge

MAX_RESULT_CHARACTERS = 12_000
Expr = Any
"""A SymPy expression."""

_CONSTANTS = {"pi": sympy.pi, "e": sympy.E, "i": sympy.I, "oo": sympy.oo}
_FUNCTIONS: dict[str, Callable[..., Expr]] = {
    **{
        name: getattr(sympy, name)
        for name in ("sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "acot")
    },
    **{
        name: getattr(sympy, name)
        for name in ("sinh", "cosh", "tanh", "coth", "asinh", "acosh", "atanh", "exp", "sqrt")
    },
    **{name: getattr(sympy, name) for name in ("sign", "floor", "factorial", "gamma", "erf", "binomial", "gcd", "lcm")},
    "ln": sympy.log,
    "log": sympy.log,
    "log10": lambda x: sympy.log(x, 10),
    "log2": lambda x: sympy.log(x, 2),
    "abs": sympy.Abs,
    "ceil": sympy.ceiling,
    "mod": sympy.Mod,
    "min": sympy.Min,
    "max": sympy.Max,
    "cbrt": lambda x: _root(x, sympy.Integer(3)),
    "root": lambda x, n: _root(x, n),  # noqa: PLW0108 - `_root` is defined below
}


def symbols(*nodes: Node, real: bool = True) -> dict[str, Expr]:
    """Return a symbol for each free variable of expressions, real or complex."""
    names = frozenset().union(*(free_variables(node) for node in nodes))
    return {name: symbol(name, real=real) for name in sorted(names)}


def symbol(name: str, *, real: bool = True) -> Expr:
    """Return the symbol of a variable."""
    return sympy.Symbol(name, real=True) if real else sympy.Symbol(name)


def convert(node: Node, names: Mapping[str, Expr]) -> Expr:
    """Return the SymPy expression of a syntax tree, whose variables are `names`. SymPy evaluates what is exact."""
    if isinstance(node, Number):
        return sympy.Rational(node.value.numerator, node.value.denominator)
    if isinstance(node, Name):
        return _CONSTANTS[node.name] if node.name in _CONSTANTS else names[node.name]
    if isinstance(node, Negation):
        return -convert(node.operand, names)
    if isinstance(node, Binary):
        return _binary(node.operator, convert(node.left, names), convert(node.right, names))
    if node.function == "sum":
        return _sum(node, names)
    return _FUNCTIONS[node.function](*(convert(each, names) for each in node.arguments))


def _binary(operator: str, left: Expr, right: Expr) -> Expr:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "/":
        return left / right
    return left**right


def _sum(node: Call, names: Mapping[str, Expr]) -> Expr:
    body, index, first, last = node.arguments
    lowest, highest = integer(first), integer(last)
    if lowest is None or highest is None or not isinstance(index, Name):
        raise InvalidArguments(sentences.UNREADABLE, at="sum")
    return sympy.Add(*(convert(body, {**names, index.name: sympy.Integer(at)}) for at in range(lowest, highest + 1)))


def _root(radicand: Expr, degree: Expr) -> Expr:
    if radicand.is_number and radicand.is_negative and degree.is_odd:
        return -sympy.root(-radicand, degree)
    return sympy.root(radicand, degree)


class _TextPrinter(StrPrinter):  # type: ignore[misc]
    """Prints in the notation that `parser.parse` reads, and sets as intervals."""

    def _print_Exp1(self, expr: Expr) -> str:
        return "e"

    def _print_ImaginaryUnit(self, expr: Expr) -> str:
        return "i"

    def _print_Infinity(self, expr: Expr) -> str:
        return "∞"

    def _print_NegativeInfinity(self, expr: Expr) -> str:
        return "-∞"

    def _print_log(self, expr: Expr) -> str:
        return f"ln({self._print(expr.args[0])})"

    def _print_Abs(self, expr: Expr) -> str:
        return f"abs({self._print(expr.args[0])})"

    def _print_EmptySet(self, expr: Expr) -> str:
        return "∅"

    def _print_Reals(self, expr: Expr) -> str:
        return "ℝ"

    def _print_Interval(self, expr: Expr) -> str:
        opening, closing = "(" if expr.left_open else "[", ")" if expr.right_open else "]"
        return f"{opening}{self._print(expr.start)}, {self._print(expr.end)}{closing}"

    def _print_FiniteSet(self, expr: Expr) -> str:
        return "{" + ", ".join(self._print(each) for each in expr.args) + "}"

    def _print_Union(self, expr: Expr) -> str:
        return " ∪ ".join(self._print(each) for each in expr.args)


def text(found: Expr) -> str:
    """Return the text of a SymPy expression or set, within a bounded length.

    Raises:
        NotFound: it is not defined, as for a division by zero.
        TooLarge: it is too long.
    """
    if found.has(sympy.zoo, sympy.nan):
        raise NotFound(sentences.UNDEFINED)
    return _bounded(_TextPrinter({"order": None}).doprint(found).replace("**", "^"))


def latex(found: Expr) -> str:
    """Return the LaTeX of a SymPy expression or set, within a bounded length."""
    return _bounded(sympy.latex(found, ln_notation=True))


def _bounded(written: str) -> str:
    if len(written) > MAX_RESULT_CHARACTERS:
        raise TooLarge(shared_sentences.TOO_LARGE)
    return written


def numeric(found: Expr) -> float | None:
    """Return the value of a real number with 15 significant digits; `None`: it is none, or too large for a float."""
    if found.free_symbols or not found.is_number:
        return None
    approximate = found.evalf(17)
    if not approximate.is_Float and not approximate.is_Integer and not approximate.is_Rational:
        return None
    if abs(approximate) > sympy.Float("1e300"):
        return None
    return float(format(float(approximate), ".15g"))
