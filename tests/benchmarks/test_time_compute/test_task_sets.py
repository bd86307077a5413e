"""Generated sets of tasks: right, of one content each, the same for the same seed, and apart for training."""

from __future__ import annotations

from itertools import pairwise

import pytest

from benchmarks.test_time_compute.games_of_24 import solve
from benchmarks.test_time_compute.task import LANGUAGES, Family, Language
from benchmarks.test_time_compute.task_sets import SIZE, conversation, evaluation_tasks, examples, training_tasks

SETS = [(family, language) for family in Family for language in LANGUAGES]


def test_there_are_more_than_a_thousand_tasks() -> None:
    assert len({task.question for each in SETS for task in evaluation_tasks(*each)}) == len(SETS) * SIZE >= 1000


@pytest.mark.parametrize(("family", "language"), SETS)
def test_solutions_are_right_and_other_solutions_are_not(family: Family, language: Language) -> None:
    tasks = evaluation_tasks(family, language)
    assert all(task.is_right(task.solution) for task in tasks)
    crossed = [one.is_right(other.solution) for one, other in pairwise(tasks)]
    assert sum(crossed) < SIZE / 5


@pytest.mark.parametrize(("family", "language"), SETS)
def test_training_tasks_have_other_contents(family: Family, language: Language) -> None:
    measured = {task.content for each in LANGUAGES for task in evaluation_tasks(family, each)}
    trained = training_tasks(family, language)
    shown = {task.content for task in trained for task in examples(family, language, task.kind)}
    assert len({task.content for task in trained}) == SIZE
    assert not measured & {task.content for task in trained}
    assert not shown & (measured | {task.content for task in trained})


def test_a_seed_gives_the_same_tasks_and_a_shorter_set_is_their_beginning() -> None:
    assert evaluation_tasks(Family.EQUATION, "pl") == evaluation_tasks(Family.EQUATION, "pl")
    assert evaluation_tasks(Family.EQUATION, "pl", 10) == evaluation_tasks(Family.EQUATION, "pl")[:10]


def test_known_tasks_are_generated() -> None:
    (problem,) = evaluation_tasks(Family.WORD_PROBLEM, "en", 1)
    (equation,) = evaluation_tasks(Family.EQUATION, "pl", 1)
    assert (
        problem.question
        == "Henry has 4 pencils. Henry gets 3 more and then gives away 6. How many pencils does Henry have now?"
    )
    assert equation.question == "Rozwiąż równanie: 3x + 9 = 36"


def test_examples_are_of_the_kind_of_the_question() -> None:
    task = evaluation_tasks(Family.EQUATION, "en", 2)[1]
    asked = [each["content"] for each in conversation(task) if each["role"] == "user"]
    assert len(asked) == 5
    assert all("x - " in question for question in asked)


def test_only_numbers_that_can_make_24_are_solved() -> None:
    assert solve((1, 1, 1, 1)) is None
    assert solve((3, 3, 8, 8)) == "8 / (3 - (8 / 3))"
