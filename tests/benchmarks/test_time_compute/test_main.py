"""The order in which tasks are measured."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from benchmarks.test_time_compute.__main__ import tasks_in_turns
from benchmarks.test_time_compute.task import Family


def test_families_and_languages_take_turns_and_rarely_solved_ones_are_rarer() -> None:
    tasks = list(tasks_in_turns(list(Family), 8))
    assert [(task.family, task.language) for task in islice(tasks, 8)] == [
        (family, language) for family in Family for language in ("en", "pl")
    ]
    assert Counter(task.family for task in tasks) == {
        Family.WORD_PROBLEM: 16,
        Family.EQUATION: 16,
        Family.GAME_OF_24: 4,
        Family.NEXT_NUMBER: 16,
    }
    assert len({task.question for task in tasks}) == len(tasks)
