"""Converts syntax trees to SymPy expressions. Import only in sandboxed processes: the module imports SymPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import sympy

from runtime.mathematics.bounds import integer
from runtime.mathematics.errors import ExpressionRefused, Problem
from runtime.mathematics.expression import Binary, Call, Name, Negation, Node, Number, free_variables

Expr = Any
"""A SymPy expression."""
RECURSION_LIMIT = 3_000
"""Limit for processes that compute: Python's default of 1,000 is little for SymPy and a sum of hundreds of terms."""

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

_DEFERRED = (
    *(f"sympy.integrals.{name}" for name in ("deltafunctions", "heurisch", "manualintegrate", "meijerint", "prde")),
    *("sympy.combinatorics.named_groups", "sympy.physics.units.systems", "sympy.tensor.tensor"),
)
_DEFERRED_PACKAGES = (
    *("assumptions", "calculus", "concrete", "functions", "polys", "series", "sets", "solvers", "tensor.array"),
)
"""Modules that SymPy imports when it first needs them; a confined process can't open their files."""


def import_deferred() -> None:
    """Import all modules that SymPy imports on first use, because a confined process can't open their files."""
    names = list(_DEFERRED)
    for package in _DEFERRED_PACKAGES:
        imported = import_module(f"sympy.{package}")
        names += [each.name for each in walk_packages(imported.__path__, f"{imported.__name__}.")]
    for name in names:
        if not {"tests", "benchmarks"}.intersection(name.split(".")):
            import_module(name)


def symbols(*nodes: Node, real: bool = True) -> dict[str, Expr]:
    """Return a SymPy symbol for each free variable of expressions, by name; real ones or complex ones."""
    names = frozenset().union(*(free_variables(node) for node in nodes))
    return {name: symbol(name, real=real) for name in sorted(names)}


def symbol(name: str, *, real: bool = True) -> Expr:
    """Return the SymPy symbol of the variable `name`, real or complex."""
    return sympy.Symbol(name, real=True) if real else sympy.Symbol(name)


def convert(node: Node, names: Mapping[str, Expr]) -> Expr:
    """Return the SymPy expression of a syntax tree; `names` are the symbols of its variables.

    SymPy evaluates what is exact.
    """
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
        raise ExpressionRefused(Problem.UNREADABLE, at="sum")
    return sympy.Add(*(convert(body, {**names, index.name: sympy.Integer(at)}) for at in range(lowest, highest + 1)))


def _root(radicand: Expr, degree: Expr) -> Expr:
    if radicand.is_number and radicand.is_negative and degree.is_odd:
        return -sympy.root(-radicand, degree)
    return sympy.root(radicand, degree)
