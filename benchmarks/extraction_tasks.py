"""Generates tasks of structured output: a text, the JSON schema of an object, and the object that the text states."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

"""Fields of each object."""
EXAMPLES = 2
"""Solved tasks of the same kind before each question."""
TASK_SEED, EXAMPLE_SEED = 27, 28

_FIRST_NAMES = ("Anna", "Brian", "Carla", "Diego", "Elena", "Farid", "Greta", "Hiro", "Ines", "Jonas", "Kira", "Liam")
_LAST_NAMES = (
    "Adams",
    "Berger",
    "Costa",
    "Dubois",
    "Evans",
    "Fischer",
    "Garcia",
    "Haddad",
    "Ito",
    "Jensen",
    "Kowalska",
)
_CITIES = ("Lisbon", "Oslo", "Krakow", "Boston", "Lyon", "Nairobi", "Quito", "Leeds", "Turin", "Osaka", "Denver")
_ITEMS = ("desk lamps", "office chairs", "notebooks", "water bottles", "headphones", "backpacks", "keyboards", "mugs")
_TOPICS = ("the annual budget", "the new website", "office safety", "hiring", "the spring sale", "customer complaints")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")

_TEXT = {"type": "string", "minLength": 1, "maxLength": 40}
_NUMBER = {"type": "integer", "minimum": 0, "maximum": 9999}
_YES_OR_NO = {"type": "boolean"}


@dataclass(frozen=True)
class Kind:
    """A kind of object.

    Attributes:
        fields: JSON schemas of the object's fields by name; the last field is a boolean.
        wordings: texts with a place for each field, and for `other`, a number that is in no field.
        phrases: what a text says for the boolean: first if it is true, then if it is false.
        draw: draws the other fields' values, in their order.
    """

    fields: dict[str, dict[str, Any]]
    wordings: tuple[str, ...]
    phrases: tuple[str, str]
    draw: Callable[[random.Random], tuple[str | int, ...]]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the object."""
        required = list(self.fields)
        return {"type": "object", "properties": self.fields, "required": required, "additionalProperties": False}


def _name(rng: random.Random) -> str:
    return f"{rng.choice(_FIRST_NAMES)} {rng.choice(_LAST_NAMES)}"


KINDS = (
    Kind(
        {"name": _TEXT, "age": _NUMBER, "city": _TEXT, "member": _YES_OR_NO},
        (
            "{name} is {age} years old, lives in {city} and {member} of the club.",
            "Our visitor from {city}, {name}, {member} of the club. Age: {age}. Locker: {other}.",
            "After {other} years abroad, {name} ({age}) moved to {city} and {member} of the club.",
            "In {city} we spoke to {name}, who turned {age} last week and {member} of the club.",
        ),
        ("is a member", "is not a member"),
        lambda rng: (_name(rng), rng.randint(18, 89), rng.choice(_CITIES)),
    ),
    Kind(
        {"customer": _TEXT, "item": _TEXT, "total": _NUMBER, "paid": _YES_OR_NO},
        (
            "{customer} ordered {other} {item} for {total} dollars. The invoice {paid}.",
            "Invoice to {customer}: {other} {item}, {total} dollars in total. It {paid}.",
            "For {total} dollars we sent {item} to {customer}; delivery took {other} days. The bill {paid}.",
            "The order of {item} by {customer} {paid}. It costs {total} dollars.",
        ),
        ("has been paid", "has not been paid"),
        lambda rng: (_name(rng), rng.choice(_ITEMS), rng.randint(25, 2500)),
    ),
    Kind(
        {"topic": _TEXT, "day": {"enum": list(_DAYS)}, "people": _NUMBER, "online": _YES_OR_NO},
        (
            "The meeting about {topic} is on {day} {online}. We expect {people} people.",
            "On {day} {people} people meet {online} to discuss {topic}. It takes {other} minutes.",
            "Please prepare {topic} for {day}: {people} people will meet {online}.",
            "{people} people have accepted. The subject is {topic}, we meet {online}, and the day is {day}.",
        ),
        ("online", "in the office"),
        lambda rng: (rng.choice(_TOPICS), rng.choice(_DAYS), rng.randint(3, 60)),
    ),
)


@dataclass(frozen=True)
class ExtractionTask:
    """A text of a kind, and the object that it states."""

    kind: Kind
    text: str
    solution: dict[str, str | int]

    @property
    def question(self) -> str:
        """What the model is asked."""
        return f"Write the {', '.join(self.kind.fields)} in this text as JSON.\n\n{self.text}"

    def messages(self, examples: Sequence[ExtractionTask]) -> list[dict[str, Any]]:
        """Return the conversation that asks for the object, after `examples` with theirs."""
        conversation = []
        for example in examples:
            conversation.append({"role": "user", "content": example.question})
            conversation.append({"role": "assistant", "content": json.dumps(example.solution)})
        return [*conversation, {"role": "user", "content": self.question}]

    def score(self, answer: str) -> float:
        """Return the share of the object's fields whose values in `answer` are exactly right; 0 if it is no object."""
        try:
            found = json.loads(answer)
        except ValueError:
            return 0.0
        if not isinstance(found, dict):
            return 0.0
        right = [name for name, value in self.solution.items() if _equal(found.get(name), value)]
        return len(right) / len(self.solution)


def _equal(one: object, other: object) -> bool:
    """Return whether two JSON values are the same, where `true` is not 1."""
    return type(one) is type(other) and one == other


def extraction_tasks(count: int) -> list[ExtractionTask]:
    """Return `count` tasks of different texts, of all kinds and wordings in turns, none of which is an example."""
    shown = {example.text for kind in KINDS for example in examples(kind)}
    rng, tasks = random.Random(TASK_SEED), dict[str, ExtractionTask]()
    while len(tasks) < count:
        turn, place = divmod(len(tasks), len(KINDS))
        kind = KINDS[place]
        task = _draw(rng, kind, kind.wordings[turn % len(kind.wordings)])
        if task.text not in shown:
            tasks.setdefault(task.text, task)
    return list(tasks.values())


def examples(kind: Kind) -> list[ExtractionTask]:
    """Return the solved tasks before each question of a kind, of different wordings: the boolean is true in the first.

    The wordings are the kind's first ones.
    """
    rng = random.Random(EXAMPLE_SEED)
    return [_draw(rng, kind, wording, number == 0) for number, wording in enumerate(kind.wordings[:EXAMPLES])]


def _draw(rng: random.Random, kind: Kind, wording: str, truth: bool | None = None) -> ExtractionTask:
    if truth is None:
        truth = rng.random() < 0.5
    solution = dict(zip(kind.fields, (*kind.draw(rng), truth), strict=True))
    *_, flag = kind.fields
    shown = solution | {flag: kind.phrases[0 if truth else 1], "other": rng.randint(2, 15)}
    return ExtractionTask(kind, wording.format(**shown), solution)
