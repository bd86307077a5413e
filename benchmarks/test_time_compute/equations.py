"""Linear equations with one unknown and a whole solution, in English and Polish."""

from __future__ import annotations

import random

from benchmarks.test_time_compute.task import SEPARATOR, Family, Language, Task
from benchmarks.test_time_compute.word_problems import ANSWER

_QUESTIONS: dict[Language, str] = {"en": "Solve for x: {equation}", "pl": "Rozwiąż równanie: {equation}"}


SIGNS = (("+", "-"), ("-", "+"))
"""The sign in an equation of each kind, and the operation that solves it."""


def equation(rng: random.Random, language: Language, kind: int) -> Task:
    """Draw an equation a x + b = c (kind 0) or a x - b = c (kind 1)."""
    a, x, b = rng.randint(2, 5), rng.randint(2, 9), rng.randint(1, 10)
    sign, opposite = SIGNS[kind]
    c = a * x + (b if sign == "+" else -b)
    steps = [f"{a}x = {c} {opposite} {b} = {a * x}", f"x = {a * x} / {a} = {x}", f"{ANSWER[language]}: {x}"]
    question = _QUESTIONS[language].format(equation=f"{a}x {sign} {b} = {c}")
    return Task(Family.EQUATION, language, question, SEPARATOR.join(steps), kind)
