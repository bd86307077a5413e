r"""Reads a search's results as mathematics: numbers, expressions, sets, tuples and intervals, in LaTeX or as typed.

`1, 2`, `\{2, 1\}`, `x = 1 or x = 2` are sets; `(1, 2)`, `[1, 2]` and `(1, 2]` are ordered; `1 \pm \sqrt{2}` is a set of
two. What is read here is in the grammar and within the bounds of `runtime.mathematics`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from inference_worker.search.events import Compare
from inference_worker.search.latex import NotTranslated, typed
from inference_worker.search.number_formats import read_number
from inference_worker.search.results import MAX_RESULT, split_label
from router.messages import ExtractionKind
from runtime.mathematics import bounds
from runtime.mathematics.errors import ExpressionRefused
from runtime.mathematics.expression import Node, Number
from runtime.mathematics.parser import parse_expression

MAX_ELEMENTS = 20
"""Most elements of a set or tuple; the worker's event loop waits while they are read."""
_TYPESET = re.compile(r"[\\^√²³]|\*\*")
"""A mark of mathematics in texts that may be something else, such as an identifier."""
_MARK = re.compile(r"[a-z\\^*√²³π!]")
"""A mark of an expression; `3-5` and `2026-11-26` have none."""
_NO_EXPRESSION = re.compile(r"(?!pi$)[a-z]{2,}|[a-z]+(?:\s+[a-z]+)+|.*:.*", re.DOTALL)
"""Words, and ratios, which may be times."""
_BRACKET = re.compile(r"\\[{}]|[()\[\]{}]")
_OPENING = ("(", "[", "{", r"\{")
_CLOSING = {"(": ")", "[": "]", "{": "}", r"\{": r"\}"}
_INTERVAL_ENDS = {"(": "])", "[": ")]"}
_LIST_SEPARATOR = re.compile(r";|,(?!\d)|(?<!\d),|\s(?:or|and|lub|oraz)\s")
"""A separator outside of brackets, where a comma between digits belongs to a number."""
_SEPARATOR = re.compile(r"[;,]")
_PLUS_MINUS, _MINUS_PLUS = re.compile(r"\\pm(?![a-z])|±"), re.compile(r"\\mp(?![a-z])|∓")


@dataclass(frozen=True)
class Answer:
    """A result that is mathematics.

    Attributes:
        kind: what the elements are: "" for a set or a single one, brackets of a tuple or an interval, or the labels of
            values of different unknowns, as "x,y". Answers of different kinds are not equal.
        elements: the elements, in their order; that of a set has no meaning.
    """

    kind: str
    elements: tuple[Node, ...]


def comparison(known: Iterable[str | None], new: Iterable[str | None], kind: ExtractionKind) -> Compare | None:
    """Return the command to compare the `new` results of a search's answers with one another and with the `known` ones.

    Results are in normal form. `None` if none can be equal to another: two must be mathematics, and one of them no
    plain number.
    """
    answers: dict[str, Answer] = {}
    of_known, of_new = ([each for each in dict.fromkeys(results) if each] for results in (known, new))
    for result in [*of_known, *of_new]:
        marked = kind is ExtractionKind.BOXED or _TYPESET.search(result) or read_number(result) is not None
        if kind is not ExtractionKind.LAST_NUMBER and marked and (answer := read_answer(result)) is not None:
            answers[result] = answer
    before = [result for result in of_known if result in answers]
    added = [result for result in of_new if result in answers and result not in before]
    if not added or len(answers) < 2 or all(map(_is_plain, answers)):
        return None
    return Compare(before, added)


def _is_plain(result: str) -> bool:
    """Whether equal results have the same normal form without SymPy: numbers, and letters of given options."""
    return len(result) == 1 or read_number(result) is not None


def read_answer(text: str) -> Answer | None:
    """Return a result in normal form as mathematics (kind and elements); `None` if it is not, or too large."""
    if len(text) >= MAX_RESULT:  # it may be cut off
        return None
    label, text = split_label(text)
    kind, parts = _parts(text)
    if not kind and len(parts) > 1:
        labelled = [split_label(part) for part in parts]
        labels = {label, *(label for label, _ in labelled)} - {""}
        if len(labels) > 1:
            labelled = sorted([(label or labelled[0][0], labelled[0][1]), *labelled[1:]])
            kind = ",".join(label for label, _ in labelled)
        parts = [part for _, part in labelled]
    if not kind:
        parts = [each for part in parts for each in _signs(part)]
    if len(parts) > MAX_ELEMENTS:
        return None
    elements: list[Node] = []
    for part in parts:
        if (element := _element(part)) is None:
            return None
        elements.append(element)
    return Answer(kind, tuple(elements))


def _parts(text: str) -> tuple[str, list[str]]:
    """Return the kind of an answer, "" or brackets, and the texts of its elements."""
    text = text.strip()
    brackets = [bracket for bracket in _BRACKET.finditer(text) if bracket[0] not in "{}"]
    if brackets and brackets[0].start() == 0 and brackets[-1].end() == len(text):
        opening, closing = brackets[0][0], brackets[-1][0]
        inner = text[len(opening) : -len(closing)]
        if _is_balanced(inner) and (closing == _CLOSING.get(opening) or closing in _INTERVAL_ENDS.get(opening, "")):
            parts = _split(inner, _SEPARATOR)
            if opening == r"\{":
                return "", parts
            return (opening + closing, parts) if len(parts) > 1 else ("", [inner.strip()])
    return "", _split(text, _LIST_SEPARATOR)


def _is_balanced(text: str) -> bool:
    depth = 0
    for bracket in _BRACKET.finditer(text):
        depth += 1 if bracket[0] in _OPENING else -1
        if depth < 0:
            return False
    return depth == 0


def _split(text: str, separator: re.Pattern[str]) -> list[str]:
    """Split a text at separators that are outside of brackets; at semicolons only if it has them."""
    if ";" in text:
        separator = re.compile(";")
    parts, start, depth = list[str](), 0, 0
    for mark in re.finditer(rf"(?P<bracket>{_BRACKET.pattern})|{separator.pattern}", text):
        if mark["bracket"]:
            depth += 1 if mark[0] in _OPENING else -1
        elif depth == 0:
            parts.append(text[start : mark.start()])
            start = mark.end()
    return [part.strip() for part in [*parts, text[start:]]]


def _signs(text: str) -> list[str]:
    r"""Return the two texts that one with `\pm` stands for, or the text."""
    if not _PLUS_MINUS.search(text):
        return [text]
    return [_MINUS_PLUS.sub(minus, _PLUS_MINUS.sub(plus, text)) for plus, minus in ("+-", "-+")]


def _element(text: str) -> Node | None:
    if (number := read_number(text)) is not None:
        return Number(number)
    if not _MARK.search(text) or _NO_EXPRESSION.fullmatch(text):
        return None
    try:
        node = parse_expression(typed(text), "en")
        bounds.check(node)
    except (NotTranslated, ExpressionRefused):
        return None
    return node
