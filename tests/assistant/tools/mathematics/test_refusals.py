"""Tool errors of refused expressions."""

from __future__ import annotations

import string

import pytest

from assistant.tools.mathematics.refusals import SENTENCES, refusals_as_tool_errors
from assistant.tools.tool import InvalidArguments, TooLarge
from runtime.mathematics.errors import ExpressionRefused, Problem


@pytest.mark.parametrize("problem", Problem)
def test_each_problem_has_a_sentence_with_its_values(problem: Problem) -> None:
    def fields(text: str) -> set[str]:
        return {field for _, field, _, _ in string.Formatter().parse(text) if field}

    assert fields(SENTENCES[problem].pl) == fields(problem.value)


def test_errors_have_sentences_in_the_persons_language() -> None:
    with pytest.raises(InvalidArguments) as error, refusals_as_tool_errors():
        raise ExpressionRefused(Problem.UNKNOWN_NAME, name="foo")
    assert error.value.message("pl") == "„foo” nie jest znaną funkcją ani zmienną."
    with pytest.raises(TooLarge), refusals_as_tool_errors():
        raise ExpressionRefused(Problem.TOO_BIG)
