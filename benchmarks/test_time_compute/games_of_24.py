"""The 24-game: make 24 of four numbers from 1 to 10 with `+ - * /` and parentheses, in English and Polish."""

from __future__ import annotations

import random
from fractions import Fraction
from functools import cache
from itertools import combinations

from benchmarks.test_time_compute.task import GOAL, Family, Language, Task

_QUESTIONS: dict[Language, str] = {
    "en": "Use each of the numbers {numbers} once, with + - * / and parentheses, to make 24.",
    "pl": "Użyj każdej z liczb {numbers} raz, z + - * / i nawiasami, aby otrzymać 24.",
}
_Term = tuple[Fraction, str]
"""A value, and an expression that has it."""


def game_of_24(rng: random.Random, language: Language, kind: int) -> Task:
    """Draw four numbers that can make 24; there is one kind."""
    while (expression := solve(tuple(sorted(numbers := tuple(rng.randint(1, 10) for _ in range(4)))))) is None:
        pass
    question = _QUESTIONS[language].format(numbers=", ".join(map(str, numbers)))
    return Task(Family.GAME_OF_24, language, question, f"{expression} = {GOAL}", kind, numbers)


@cache
def solve(numbers: tuple[int, ...]) -> str | None:
    """Return an expression of the value 24 that has each of the numbers once; `None`: there is none."""
    found = _solve([(Fraction(number), str(number)) for number in numbers])
    return None if found is None else found.removeprefix("(").removesuffix(")")


def _solve(terms: list[_Term]) -> str | None:
    if len(terms) == 1:
        value, expression = terms[0]
        return expression if value == GOAL else None
    for one, other in combinations(range(len(terms)), 2):
        rest = [term for place, term in enumerate(terms) if place not in (one, other)]
        for combined in _combinations(terms[one], terms[other]):
            if (found := _solve([*rest, combined])) is not None:
                return found
    return None


def _combinations(one: _Term, other: _Term) -> list[_Term]:
    (a, left), (b, right) = one, other
    found = [
        (a + b, f"({left} + {right})"),
        (a * b, f"({left} * {right})"),
        (a - b, f"({left} - {right})"),
        (b - a, f"({right} - {left})"),
    ]
    if b:
        found.append((a / b, f"({left} / {right})"))
    if a:
        found.append((b / a, f"({right} / {left})"))
    return found
