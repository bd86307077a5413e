r"""Translates LaTeX of a search's results to the typed notation that `runtime.mathematics` reads.

Texts without LaTeX stay nearly as they are. Only the structure is translated here; the parser refuses what is no
expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from runtime.mathematics.functions import canonical

MAX_DEPTH = 40
"""Most levels of nested commands and braces."""
_PART = re.compile(r"\\[a-z]+|\\.|[0-9]+|[a-z]+|.", re.DOTALL)
_COMMANDS = {
    **{rf"\{name}": f" {name} " for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth")},
    **{rf"\{name}": f" {name} " for name in ("arcsin", "arccos", "arctan", "exp", "ln", "gcd", "min", "max")},
    **{rf"\{name}": f" {name} " for name in ("alpha", "beta", "delta", "epsilon", "theta", "lambda", "mu", "phi")},
    **{rf"\{name}": f" {name} " for name in ("omega", "pi", "rho", "sigma", "tau")},
    **dict.fromkeys((r"\cdot", r"\times", r"\ast"), "*"),
    **dict.fromkeys((r"\lvert", r"\rvert", r"\vert"), "|"),
    **dict.fromkeys((r"\rfloor", r"\rceil"), ")"),
    r"\div": "/",
    r"\infty": " oo ",
    r"\degree": "°",
    r"\%": "%",
    r"\lfloor": " floor(",
    r"\lceil": " ceil(",
}
_FRACTIONS = (r"\frac", r"\dfrac", r"\tfrac")
_LOGARITHMS = {"": " log ", "_2": " log2 ", "_10": " log10 "}
_VARIABLES = 3
"""Most letters of a run that is read as a product of variables, as `mgh`; longer ones are names or words."""


class NotTranslated(Exception):
    """Raised when LaTeX has a command or a structure that no expression has, or is not complete."""


def typed(latex: str) -> str:
    r"""Return a LaTeX expression, in lower case, in typed notation: `\frac{1}{\sqrt2}` becomes `((1)/(sqrt(2)))`.

    Raises:
        NotTranslated: the text is no expression.
    """
    return _Translator(_PART.findall(latex)).text("", 0)


class _Translator:
    def __init__(self, parts: list[str]) -> None:
        self._parts = parts[::-1]
        """Parts of the LaTeX that were not read yet, the next one last."""
        self._structures: dict[str, Callable[[int], str]] = {
            "{": lambda depth: f"({self.text('}', depth + 1)})",
            "^": self._exponent,
            r"\sqrt": self._root,
            r"\binom": lambda depth: f" binomial({self._argument(depth)};{self._argument(depth)})",
            r"\log": self._logarithm,
        }

    def text(self, closing: str, depth: int) -> str:
        """Return the translation of what follows up to the part `closing`, or to the end if `closing` is ""."""
        read: list[str] = []
        while self._parts:
            part = self._parts.pop()
            if part == closing:
                return "".join(read)
            read.append(self._one(part, depth, after_number="".join(read[-2:]).strip().isdigit()))
        if closing:
            raise NotTranslated
        return "".join(read)

    def _one(self, part: str, depth: int, *, after_number: bool = False) -> str:
        if depth > MAX_DEPTH:
            raise NotTranslated
        if part in _FRACTIONS:
            return self._fraction(depth, after_number=after_number)
        if (structure := self._structures.get(part)) is not None:
            return structure(depth)
        if part[0] == "\\":
            if part not in _COMMANDS:
                raise NotTranslated
            return _COMMANDS[part]
        if part.isascii() and part.isalpha() and len(part) <= _VARIABLES and canonical(part) is None:
            return part if part in ("pi", "oo") else f" {' '.join(part)}{self._index(depth)} "
        return part

    def _argument(self, depth: int) -> str:
        """Read the argument of a command: a group in braces, a command, or one character."""
        while self._next == " ":
            self._parts.pop()
        if not self._parts:
            raise NotTranslated
        part = self._parts.pop()
        if part == "{":
            return self.text("}", depth + 1)
        if part[0] != "\\" and len(part) > 1:
            self._parts.append(part[1:])
            part = part[0]
        return self._one(part, depth + 1).strip()

    def _fraction(self, depth: int, *, after_number: bool) -> str:
        above, below = self._argument(depth), self._argument(depth)
        if after_number and above.isdigit() and below.isdigit():  # a mixed number, or a product
            raise NotTranslated
        return f"(({above})/({below}))"

    def _root(self, depth: int) -> str:
        if self._next != "[":
            return f" sqrt({self._argument(depth)})"
        self._parts.pop()
        degree = self.text("]", depth + 1)
        return f" root({self._argument(depth)};{degree})"

    def _index(self, depth: int) -> str:
        if self._next != "_":
            return ""
        self._parts.pop()
        return f"_{self._argument(depth)}"

    def _logarithm(self, depth: int) -> str:
        index = self._index(depth)
        if index not in _LOGARITHMS:
            raise NotTranslated
        return _LOGARITHMS[index]

    def _exponent(self, _depth: int) -> str:
        for degrees in (["\\circ"], ["}", "\\circ", "{"]):
            if self._parts[-len(degrees) :] == degrees:
                del self._parts[-len(degrees) :]
                return "°"
        return "^"

    @property
    def _next(self) -> str:
        return self._parts[-1] if self._parts else ""
