"""Arithmetic word problems of two operations, in English and Polish, with solutions in steps."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.test_time_compute.task import SEPARATOR, Family, Language, Task

ANSWER: dict[Language, str] = {"en": "Answer", "pl": "Odpowiedź"}
_NAMES: dict[Language, tuple[str, ...]] = {
    "en": ("Anna", "Ben", "Clara", "David", "Emma", "Frank", "Grace", "Henry", "Ivy", "Jack"),
    "pl": ("Ania", "Bartek", "Celina", "Dawid", "Ewa", "Filip", "Gosia", "Henryk", "Iga", "Janek"),
}
_THINGS: dict[Language, tuple[str, ...]] = {
    "en": ("apples", "pencils", "stickers", "books", "marbles", "cards", "coins", "shells", "stamps", "sweets"),
    "pl": ("jabłek", "ołówków", "naklejek", "książek", "kulek", "kart", "monet", "muszelek", "znaczków", "cukierków"),
}
"""Things by language; the Polish ones are in the genitive, which follows the numbers of these problems."""


@dataclass(frozen=True)
class Template:
    """The text of a problem in each language with the places {name}, {things}, {a}, {b} and {c}, and its operations."""

    texts: dict[Language, str]
    operations: tuple[str, str]
    """The operation on a and b, and that on its result and c."""
    largest: tuple[int, int]
    """The largest a and b; c is at most `LARGEST_C`, and smaller if it is subtracted."""


LARGEST_C = 9
TEMPLATES = (
    Template(
        {
            "en": "{name} has {a} {things}. {name} gets {b} more and then gives away {c}."
            " How many {things} does {name} have now?",
            "pl": "{name} ma {a} {things}. {name} dostaje {b} więcej, a potem oddaje {c}."
            " Ile {things} ma teraz {name}?",
        },
        ("+", "-"),
        (9, 9),
    ),
    Template(
        {
            "en": "There are {a} boxes with {b} {things} in each. {name} takes out {c} {things}."
            " How many {things} are left in the boxes?",
            "pl": "Liczba pudełek: {a}. W każdym jest {b} {things}. {name} wyjmuje {c} {things}."
            " Ile {things} zostało w pudełkach?",
        },
        ("*", "-"),
        (5, 8),
    ),
    Template(
        {
            "en": "{name} has {a} bags with {b} {things} in each, and {c} more {things} on the table."
            " How many {things} does {name} have in all?",
            "pl": "Liczba toreb: {a}. W każdej jest {b} {things}, a na stole jeszcze {c} {things}."
            " Ile jest {things} razem?",
        },
        ("*", "+"),
        (5, 8),
    ),
)
_COMPUTE: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}


def word_problem(rng: random.Random, language: Language, kind: int) -> Task:
    """Draw a word problem by the template number `kind`."""
    template = TEMPLATES[kind]
    first, second = template.operations
    a, b = (rng.randint(2, largest) for largest in template.largest)
    between = _COMPUTE[first](a, b)
    c = rng.randint(1, min(LARGEST_C, between - 1) if second == "-" else LARGEST_C)
    result = _COMPUTE[second](between, c)
    question = template.texts[language].format(
        name=rng.choice(_NAMES[language]), things=rng.choice(_THINGS[language]), a=a, b=b, c=c
    )
    steps = [f"{a} {first} {b} = {between}", f"{between} {second} {c} = {result}", f"{ANSWER[language]}: {result}"]
    return Task(Family.WORD_PROBLEM, language, question, SEPARATOR.join(steps), kind)
