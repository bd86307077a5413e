"""Tool errors of expressions that the parser or its bounds refuse, with a sentence for each problem."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from assistant.tools.mathematics import sentences
from assistant.tools.tool import InvalidArguments, TooLarge
from runtime.mathematics.errors import ExpressionRefused, Problem

SENTENCES = {problem: getattr(sentences, problem.name) for problem in Problem}


@contextmanager
def refusals_as_tool_errors() -> Iterator[None]:
    """Raise `InvalidArguments` or `TooLarge` instead of `ExpressionRefused`."""
    try:
        yield
    except ExpressionRefused as refused:
        error = TooLarge if refused.problem.is_size else InvalidArguments
        raise error(SENTENCES[refused.problem], **refused.values) from refused
