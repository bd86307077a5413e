"""Exact checks of answers to tasks."""

from __future__ import annotations

import pytest

from benchmarks.test_time_compute.task import Family, Task

SUM = Task(Family.WORD_PROBLEM, "en", "How many?", "5 * 3 = 15\n\n15 - 4 = 11\n\nAnswer: 11")
GAME = Task(Family.GAME_OF_24, "pl", "?", "8 / (3 - (8 / 3)) = 24", numbers=(3, 3, 8, 8))


@pytest.mark.parametrize(
    ("answer", "right"),
    [("5 * 3 = 15. Answer: 11", True), ("It is 11.0.", True), ("11\n\nAnswer: 12", False), ("", False), ("x", False)],
)
def test_the_last_number_is_the_result(answer: str, right: bool) -> None:
    assert SUM.is_right(answer) is right


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("8 / (3 - 8 / 3) = 24", True),
        ("First 1 + 1 = 2\n\nAnswer: 8/(3-8/3)=24", True),
        ("(8 - 3) * (8 - 3) = 24", False),
        ("8 * 3 = 24", False),
        ("8 + 8 + 8 = 24", False),
        ("24", False),
    ],
)
def test_an_expression_must_have_each_number_once_and_be_24(answer: str, right: bool) -> None:
    assert GAME.is_right(answer) is right


def test_equal_computations_have_equal_content() -> None:
    polish = Task(Family.WORD_PROBLEM, "pl", "Ile?", "5 * 3 = 15\n\n15 - 4 = 11\n\nOdpowiedź: 11")
    assert SUM.content == polish.content
    assert GAME.content == "3 3 8 8"


def test_examples_come_before_the_question() -> None:
    messages = SUM.messages([GAME])
    assert [each["role"] for each in messages] == ["user", "assistant", "user"]
    assert messages[1]["content"] == GAME.solution
    assert messages[2]["content"] == "How many?"
