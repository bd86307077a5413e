"""Sets of tasks, generated from a seed: tasks to train a verifier with, and tasks to measure searches with."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.test_time_compute.equations import SIGNS, equation
from benchmarks.test_time_compute.games_of_24 import game_of_24
from benchmarks.test_time_compute.next_numbers import next_number
from benchmarks.test_time_compute.task import LANGUAGES, Family, Language, Task
from benchmarks.test_time_compute.word_problems import TEMPLATES, word_problem

EVALUATION_SEED, TRAINING_SEED, EXAMPLE_SEED = 24, 25, 26
SIZE = 200
"""Tasks of a family and language in a set; the eight together have 1,600."""
EXAMPLES = 4
"""Solved tasks before each question."""
Generator = Callable[[random.Random, Language, int], Task]
_GENERATORS: dict[Family, tuple[Generator, int]] = {
    Family.WORD_PROBLEM: (word_problem, len(TEMPLATES)),
    Family.EQUATION: (equation, len(SIGNS)),
    Family.GAME_OF_24: (game_of_24, 1),
    Family.NEXT_NUMBER: (next_number, 1),
}
"""The generator of each family, and the number of its kinds."""


def generate(
    seed: int, family: Family, language: Language, kinds: Sequence[int], count: int, without: Iterable[Task] = ()
) -> list[Task]:
    """Return `count` tasks of the `kinds` in turns, all of different content, which none of `without` has.

    They are the same for the same arguments.
    """
    rng = random.Random(f"{seed} {family} {language}")
    draw, _ = _GENERATORS[family]
    used, tasks = {task.content for task in without}, list[Task]()
    while len(tasks) < count:
        task = draw(rng, language, kinds[len(tasks) % len(kinds)])
        if task.content not in used:
            used.add(task.content)
            tasks.append(task)
    return tasks


def examples(family: Family, language: Language, kind: int) -> list[Task]:
    """Return the solved tasks that are put before each question of a kind in a language."""
    return generate(EXAMPLE_SEED, family, language, [kind], EXAMPLES)


def evaluation_tasks(family: Family, language: Language, count: int = SIZE) -> list[Task]:
    """Return tasks to measure with, none of which is an example."""
    return _tasks(EVALUATION_SEED, family, language, count, [])


def training_tasks(family: Family, language: Language, count: int = SIZE) -> list[Task]:
    """Return tasks to train a verifier with: none has the content of an example, or of a task to measure with."""
    held_out = [task for each in LANGUAGES for task in evaluation_tasks(family, each)]
    return _tasks(TRAINING_SEED, family, language, count, held_out)


def _tasks(seed: int, family: Family, language: Language, count: int, without: list[Task]) -> list[Task]:
    kinds = range(_GENERATORS[family][1])
    shown = [task for each in LANGUAGES for kind in kinds for task in examples(family, each, kind)]
    return generate(seed, family, language, kinds, count, [*shown, *without])


def conversation(task: Task) -> list[dict[str, Any]]:
    """Return the conversation that asks a model for the answer of a task, after examples of its kind."""
    return task.messages(examples(task.family, task.language, task.kind))
