"""Labelled questions for the tools: what a question asks for, and how much of it the tools' own parsers find.

`data/*.jsonl` has for each tool and language 66 questions. They alternate between two parts: rules were mended with the
misses of `mending` in view, and those of `reporting` were only counted. Two of `reporting` were mended
too, because they gave a wrong result, which no question may: "sine of pi/6" in English and in Polish.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assistant.tools.image_questions import image_prompt
from assistant.tools.mathematics.question import arguments_of
from assistant.tools.mathematics.real_function import value
from assistant.tools.topic_questions import topic_arguments
from assistant.tools.weather_questions import weather_arguments
from runtime.mathematics.expression import Relation, Statement
from runtime.mathematics.parser import parse

_DATA = Path(__file__).parent / "data"
POINTS = (0.4, 1.7)
Question = dict[str, Any]


def questions(tool: str, language: str, part: str) -> list[Question]:
    """Return the labelled questions of a tool, a language and a part: `mending` or `reporting`."""
    lines = (_DATA / f"{tool}.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [each for each in found if (each["lang"], each["part"]) == (language, part)]


def found(tool: str, question: Question) -> Any:
    """Return what the tool's parser finds in a question."""
    return _PARSERS[tool](question["text"], question["lang"])


def is_right(tool: str, question: Question) -> bool:
    """Return whether the tool's parser finds what a question asks for."""
    return _JUDGES[tool](found(tool, question), question)


def _is_place_and_day(arguments: dict[str, Any] | None, question: Question) -> bool:
    wanted = {name: question.get(name) for name in ("place", "day", "days")}
    return arguments is not None and {name: arguments.get(name) for name in wanted} == wanted


def _is_calculation(arguments: dict[str, Any] | None, question: Question) -> bool:
    if arguments is None or arguments["operation"] != question["operation"]:
        return False
    read, wanted = (parse(each["expression"], question["lang"]) for each in (arguments, question))
    return len(read) == len(wanted) and all(map(_is_equal, read, wanted))


def _is_equal(read: Statement, wanted: Statement) -> bool:
    """Return whether two expressions have equal values at some points, or are the same where they have none."""
    if isinstance(read, Relation) and isinstance(wanted, Relation):
        return (
            read.operator == wanted.operator
            and _is_equal(read.left, wanted.left)
            and _is_equal(read.right, wanted.right)
        )
    if isinstance(read, Relation) or isinstance(wanted, Relation):
        return False
    values = [[value(each, dict.fromkeys("xyabnt", point)) for point in POINTS] for each in (read, wanted)]
    if None in values[1]:
        return read == wanted
    return values[0] == pytest.approx(values[1])


_PARSERS: dict[str, Callable[[str, str], Any]] = {
    "weather": lambda text, _: weather_arguments(text),
    "wikipedia": lambda text, _: (topic_arguments(text) or {}).get("topic"),
    "mathematics": arguments_of,
    "image": lambda text, _: image_prompt(text),
}
_JUDGES: dict[str, Callable[[Any, Question], bool]] = {
    "weather": _is_place_and_day,
    "wikipedia": lambda topic, question: topic in question["topics"],
    "mathematics": _is_calculation,
    "image": lambda prompt, question: prompt in question["prompts"],
}
TOOLS = tuple(_PARSERS)
LANGUAGES = ("en", "pl")
PARTS = ("mending", "reporting")
