"""Writes SymPy results of the mathematics tool as text, LaTeX and numbers; imported by the sandboxed process only."""

from __future__ import annotations

import sympy
from sympy.printing.str import StrPrinter

from assistant.tools import sentences as shared_sentences
from assistant.tools.mathematics import sentences
from assistant.tools.tool import NotFound, TooLarge
from runtime.mathematics.sympy_expressions import Expr

MAX_RESULT_CHARACTERS = 12_000


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
    """Return the text of a SymPy expression or set, in the parser's notation and within a bounded length.

    Raises:
        NotFound: it is not defined, as for a division by zero.
        TooLarge: it is too long.
    """
    if found.has(sympy.zoo, sympy.nan):
        raise NotFound(sentences.UNDEFINED)
    return _bounded(_TextPrinter({"order": None}).doprint(found).replace("**", "^"))


def latex(found: Expr) -> str:
    """Return the LaTeX of a SymPy expression or set, within a bounded length.

    Raises:
        TooLarge: it is too long.
    """
    return _bounded(sympy.latex(found, ln_notation=True))


def _bounded(written: str) -> str:
    if len(written) > MAX_RESULT_CHARACTERS:
        raise TooLarge(shared_sentences.TOO_LARGE)
    return written


def numeric(found: Expr) -> float | None:
    """Return a SymPy number as a float of 15 significant digits; `None` if it is not real, or too large for a float."""
    if found.free_symbols or not found.is_number:
        return None
    approximate = found.evalf(17)
    if not approximate.is_Float and not approximate.is_Integer and not approximate.is_Rational:
        return None
    if abs(approximate) > sympy.Float("1e300"):
        return None
    return float(format(float(approximate), ".15g"))
