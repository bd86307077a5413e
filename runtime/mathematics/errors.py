"""Defines the error of mathematical expressions that the parser or its bounds refuse, and the problems it names."""

from __future__ import annotations

from enum import StrEnum


class Problem(StrEnum):
    """Why an expression is refused, in words; `{at}` and `{name}` stand for values of the error."""

    UNREADABLE = "it can't be read at {at!r}"
    INCOMPLETE = "it is not complete"
    UNKNOWN_NAME = "{name!r} is no known function or variable"
    AMBIGUOUS_COMMA = "the comma in {at!r} may separate decimals or arguments"
    ARGUMENT_COUNT = "{name!r} has a wrong number of arguments"
    NO_EQUATION = "it is an equation or a list"
    TOO_LONG = "it is too long, or nested too deeply"
    TOO_BIG = "its numbers would be too large"

    @property
    def is_size(self) -> bool:
        """Whether an expression in the grammar exceeds a limit; false if the problem is that it can't be read."""
        return self in (Problem.TOO_LONG, Problem.TOO_BIG)


class ExpressionRefused(Exception):
    """Raised when a text is not in the grammar of expressions, or too much to compute."""

    def __init__(self, problem: Problem, **values: str) -> None:
        super().__init__(problem.format(**values))
        self.problem = problem
        self.values = values
