"""A task with an exact check of its answers, and the form in which models get it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from benchmarks.test_time_compute.expressions import InvalidExpression, evaluate
from inference_worker.search.results import extract_results
from router.messages import Extraction, ExtractionKind

Language = Literal["en", "pl"]
LANGUAGES: tuple[Language, ...] = ("en", "pl")
SEPARATOR = "\n\n"
"""Text between two steps of an answer."""
GOAL = 24
"""Value of an expression that solves a 24-game."""
_EQUATED = r"([0-9+*/() -]+)= ?24"
"""Pattern of an answer to a 24-game: the expression before `= 24`."""


class Family(StrEnum):
    """A kind of task."""

    WORD_PROBLEM = "word problem"
    EQUATION = "equation"
    GAME_OF_24 = "24-game"
    NEXT_NUMBER = "next number"

    @property
    def extract(self) -> Any:
        """The value of `test_time_compute.extract` that finds the result in an answer."""
        return {"regex": _EQUATED} if self is Family.GAME_OF_24 else "last_number"

    @property
    def extraction(self) -> Extraction:
        """The same, as workers get it."""
        if self is Family.GAME_OF_24:
            return Extraction(kind=ExtractionKind.REGEX, pattern=_EQUATED)
        return Extraction(kind=ExtractionKind.LAST_NUMBER)


@dataclass(frozen=True)
class Task:
    """A question with one right result, or with four numbers of which any expression of the value 24 is right."""

    family: Family
    language: Language
    question: str
    solution: str
    """A right answer, in steps."""
    kind: int = 0
    """Number of the operations that solve it, within the family; a question's examples are of the same kind."""
    numbers: tuple[int, ...] = ()
    """The numbers of a 24-game; else none."""

    def is_right(self, answer: str) -> bool:
        """Whether `answer` has the right result: the last number, or an expression of the task's numbers that is 24."""
        (found,) = extract_results([answer], self.family.extraction)
        if found is None or not self.numbers:
            return found is not None and found == self.result
        try:
            value, used = evaluate(found)
        except InvalidExpression:
            return False
        return value == GOAL and sorted(used) == sorted(self.numbers)

    @property
    def content(self) -> str:
        """What is to be computed, without the words around: equal for two questions with the same solution."""
        return " ".join(map(str, sorted(self.numbers))) or self.solution.rpartition(SEPARATOR)[0]

    @property
    def result(self) -> str | None:
        """The result of the right answer in normal form."""
        (result,) = extract_results([self.solution], self.family.extraction)
        return result

    def messages(self, examples: Sequence[Task]) -> list[dict[str, Any]]:
        """Return the conversation that asks for an answer, after `examples` with their solutions."""
        conversation = []
        for example in examples:
            conversation.append({"role": "user", "content": example.question})
            conversation.append({"role": "assistant", "content": example.solution})
        return [*conversation, {"role": "user", "content": self.question}]
