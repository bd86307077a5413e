"""Converts the parser's refusals of expressions to errors of the mathematics tool, with a sentence for each problem."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from assistant.tools.mathematics import sentences
from assistant.tools.tool import InvalidArguments, TooLarge
from runtime.mathematics.errors import ExpressionRefused, Problem

SENTENCES = {problem: getattr(sentences, problem.name) for problem in Problem}


@contextmanager
def refusals_as_tool_errors() -> Iterator[None]:
    """Context manager that raises tool errors for the expressions that the parser or its bounds refuse in the block.

    Raises:
        TooLarge: instead of `ExpressionRefused`, if the expression exceeds a limit.
        InvalidArguments: instead of `ExpressionRefused`, if it can't be read.
    """
    try:
        yield
    except ExpressionRefused as refused:
        error = TooLarge if refused.problem.is_size else InvalidArguments
        raise error(SENTENCES[refused.problem], **refused.values) from refused
