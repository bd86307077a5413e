"""Questions for the number after another, in English and Polish: tasks that also a small model mostly solves."""

from __future__ import annotations

import random

from benchmarks.test_time_compute.task import SEPARATOR, Family, Language, Task
from benchmarks.test_time_compute.word_problems import ANSWER

_QUESTIONS: dict[Language, str] = {"en": "What number comes after {a}?", "pl": "Jaka liczba jest po liczbie {a}?"}


def next_number(rng: random.Random, language: Language, kind: int) -> Task:
    """Draw a question for the number after one of three digits. There is one `kind`, 0."""
    a = rng.randint(100, 998)
    steps = [f"{a} + 1 = {a + 1}", f"{ANSWER[language]}: {a + 1}"]
    return Task(Family.NEXT_NUMBER, language, _QUESTIONS[language].format(a=a), SEPARATOR.join(steps), kind)
