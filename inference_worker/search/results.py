r"""Extracts the results of a search's answers from their texts, in a normal form in which equal results are equal."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from inference_worker.search.number_formats import find_last_number, normal_number, read_number
from inference_worker.search.regular_expressions import MATCH_TIMEOUT, last_match
from router.messages import Extraction, ExtractionKind

MAX_RESULT = 200
"""Length of a result in characters; the rest is cut off."""
_SEARCHED_CHARACTERS = 20_000
"""Length of the end of an answer in which a number is searched."""
_MATH_WORDS = re.compile(r"\\(?:left|right|displaystyle|quad|[,!;: ])(?![a-zA-Z])")
_TEXT_COMMAND = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox|boldsymbol)\s*\{([^{}]*)\}")
_LABEL = re.compile(
    r"((?:[a-z]|\\[a-z]+)(?:_(?:[a-z0-9]|\{[a-z0-9]+\}))?|[a-z]\([a-z]\)|\(\s*[a-z](?:\s*,\s*[a-z])*\s*\))"
    r"\s*(?:=|\\in(?![a-z]))\s*(?=\S)",
    re.IGNORECASE,
)
"""The unknown, function or tuple of unknowns whose value follows."""
_BRACE = re.compile(r"\\boxed\s?\{|\\.|[{}]", re.DOTALL)
"""A brace, or an escape, which is none."""
_FENCE = "```"


class Extractor(Protocol):
    """Finds the results of answers, in this process or in another one."""

    def __call__(self, texts: Sequence[str], extraction: Extraction) -> list[str | None]:
        """Return the result of each text in normal form; `None` where there is none."""
        ...


def extract_results(texts: Sequence[str], extraction: Extraction) -> list[str | None]:
    """Return the result of each answer in `texts`, by `extraction`, in normal form; `None` where there is none.

    A client's pattern may take `MATCH_TIMEOUT` for each text, and releases the interpreter's lock meanwhile; after one
    text that takes longer, the rest have no results. So call it in a thread if the pattern is a client's.
    """
    results: list[str | None] = []
    until = time.monotonic() + MATCH_TIMEOUT
    with suppress(TimeoutError):  # the client's pattern is slow: no further text is tried
        for text in texts:
            results.append(_extract(text, extraction, until - time.monotonic()))  # noqa: PERF401 - those before the slow one are kept
    return results + [None] * (len(texts) - len(results))


def _extract(text: str, extraction: Extraction, timeout: float) -> str | None:
    found: str | None
    match extraction.kind:
        case ExtractionKind.LAST_NUMBER:
            number = find_last_number(text[-_SEARCHED_CHARACTERS:])
            return None if number is None else normal_number(number)
        case ExtractionKind.BOXED:
            found = last_boxed(text)
        case ExtractionKind.REGEX:
            found = last_match(extraction.pattern, text, timeout)
        case ExtractionKind.JSON_PATH:
            found = value_at(text, extraction.pattern)
        case ExtractionKind.MODEL:
            raise ValueError("the model finds results, not this function")
        case ExtractionKind.TEXT:
            found = text
    return normal_form(found) if found and found.strip() else None


def normal_form(text: str) -> str:
    """Return a result as text that is the same for equal results, so that answers can be counted as votes.

    A number is written by `normal_number`; other text loses case, markup of mathematics and extra white space.
    Of a labelled number, such as `x = 3`, only the number counts.
    """
    text = text.strip().removesuffix(".").strip()
    for mark in ("$$", "$", "**"):
        if text.startswith(mark) and text.endswith(mark) and len(text) > 2 * len(mark):
            text = text[len(mark) : -len(mark)]
    if len(text) <= MAX_RESULT and (number := read_number(split_label(text)[1])) is not None:
        return normal_number(number)
    text = text.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac")
    text = _MATH_WORDS.sub("", _TEXT_COMMAND.sub(r"\1", text))
    return " ".join(text.casefold().split())[:MAX_RESULT]


def split_label(text: str) -> tuple[str, str]:
    """Split a result such as `x = 3` into its label and its value, "x" and "3"; the label is "" if there is none."""
    label = _LABEL.match(text)
    return ("", text) if label is None else (label[1], text[label.end() :])


def last_boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{}` in a text whose braces are balanced; `None` if there is none."""
    content: str | None = None
    content_start = -1
    opened: list[tuple[bool, int]] = []
    for brace in _BRACE.finditer(text):
        mark = brace.group()
        if mark[-1] == "{" and (mark == "{" or len(mark) > len("\\{")):
            opened.append((mark != "{", brace.end()))
        elif mark == "}" and opened:
            boxed, start = opened.pop()
            if boxed and start > content_start:
                content, content_start = text[start : brace.start()], start
    return content


def value_at(text: str, path: str) -> str | None:
    """Return the value at a dotted path (such as `answer.0.name`) of a JSON text, perhaps in a code fence, as text.

    `None` if the text is not JSON or has no such value.
    """
    try:
        value: Any = json.loads(_without_fence(text), parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    for key in path.split(".") if path else []:
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isascii() and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    found = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return found.encode(errors="replace").decode()  # JSON can escape lone surrogates, which no message can have


def _without_fence(text: str) -> str:
    """Return the content of a text that is one code fence, or else the text. It takes linear time for every text."""
    opening, _, rest = text.strip().partition("\n")
    content, _, closing = rest.rpartition("\n")
    fenced = opening.rstrip() in (_FENCE, f"{_FENCE}json") and closing.strip() == _FENCE
    return content if fenced else text
