"""Finds the weather tool's arguments, place and day, in English and Polish questions without a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from assistant.tools.day_phrases import MASK, stated
from assistant.tools.folding import without_diacritics
from assistant.tools.weather_words import (
    BESIDE,
    INTRODUCING,
    JOINING,
    KINDS,
    NEVER_PLACES,
    NO_PLACES,
    ORIGIN,
    STOPS,
    STRONG,
    WEAK,
    WEATHER,
)

MAX_QUESTION = 1000
MAX_LOWER_CASE_WORDS = 4

_TOKEN = re.compile(r"\b(?:St|Mt|Ft|Pt|Ste)\.|[^\W\d_](?:[\w'’-]|\.(?=\w))*|\S")
_SENTENCE_END = re.compile(r"(?<=\w{3})[.!?…]+\s+(?=\w)|[!?…]+\s+(?=\w)|\n+|\s[–—-]\s")


@dataclass(frozen=True)
class _Token:
    text: str
    plain: str
    start: int
    end: int

    @property
    def is_word(self) -> bool:
        """Whether the token is a word, not a number or punctuation."""
        return self.text[0].isalpha()

    @property
    def is_capitalised(self) -> bool:
        """Whether the token begins with a capital letter."""
        return self.text[0].isupper()


@dataclass(frozen=True, order=True)
class _Candidate:
    """A possible name, ordered by how unlikely it is."""

    unlikely: int
    start: int
    end: int


def weather_arguments(question: str) -> dict[str, Any] | None:
    """Return the place and, if stated, the day or the number of days that a question about the weather asks for.

    `None` if the question names no place.
    """
    text = question[:MAX_QUESTION]
    times = stated(text)
    place = _place(times.text, text)
    if place is None:
        return None
    arguments: dict[str, Any] = {"place": place}
    if times.day:
        arguments["day"] = times.day
    if times.days:
        arguments["days"] = times.days
    return arguments


def asks_about_weather(question: str) -> bool:
    """Return whether an English or Polish question has a word about the weather in it."""
    return any(_is_weather(token) for token in _tokens(question[:MAX_QUESTION]))


def _place(text: str, original: str) -> str | None:
    """Return the likeliest name in a text without phrases of time, as `original` has it."""
    if text.isupper():
        text = text.lower()
    best = min(_candidates(text), default=None)
    if best is None:
        return None
    name = " ".join(original[best.start : best.end].split()).strip(" .,;:!?'’\"”„“-")
    return re.sub(r"['’]s$", "", name)


def _candidates(text: str) -> Iterator[_Candidate]:
    at = 0
    for end in [*_SENTENCE_END.finditer(text), None]:
        until = len(text) if end is None else end.end()
        tokens = _tokens(text[at:until], at)
        # A place is rather in the sentence that asks about the weather than in one before or after it.
        elsewhere = 0 if any(map(_is_weather, tokens)) or "?" in text[at:until] else 10
        yield from (_Candidate(each.unlikely + elsewhere, each.start, each.end) for each in _in_sentence(tokens))
        at = until


def _in_sentence(tokens: Sequence[_Token]) -> Iterator[_Candidate]:
    for index, token in enumerate(tokens):
        if not token.is_word:
            continue
        before = tokens[index - 1].plain if index else ""
        if _may_begin_capitalised(tokens, index):
            end = _capitalised(tokens, index)
            yield _Candidate(_capitalised_rank(tokens, index, end), token.start, tokens[end].end)
        elif before in STRONG | WEAK:
            begin = _after_kinds(tokens, index)
            if (last := _lower_case(tokens, begin)) is not None:
                yield _Candidate(30 if before in STRONG else 35, tokens[begin].start, tokens[last].end)
        elif (last := _beside_weather(tokens, index)) is not None:
            yield _Candidate(32, token.start, tokens[last].end)


def _may_begin_capitalised(tokens: Sequence[_Token], index: int) -> bool:
    token = tokens[index]
    if index and tokens[index - 1].plain in INTRODUCING:
        return False
    if not token.is_capitalised or (index and _is_name(tokens[index - 1]) and tokens[index - 1].is_capitalised):
        return False
    if token.plain == "the" and index and index + 1 < len(tokens):
        return tokens[index + 1].is_capitalised and _is_name(tokens[index + 1])
    if index and tokens[index - 1].plain in STRONG | WEAK:
        # "in Nice" names a place if capitals are for names only.
        return token.is_word and token.plain not in (STOPS if _is_title_case(tokens) else NEVER_PLACES)
    return _is_name(token)


def _is_title_case(tokens: Sequence[_Token]) -> bool:
    return sum(each.is_capitalised for each in tokens) > sum(each.is_word for each in tokens) / 2


def _capitalised(tokens: Sequence[_Token], index: int) -> int:
    """Return the last token of the name with capitals that begins at `index`, its region included."""
    last = _end_of_name(tokens, index)
    region = last + 2
    if region < len(tokens) and tokens[last + 1].text == "," and _is_capitalised_name(tokens[region]):
        return _end_of_name(tokens, region)
    return last


def _end_of_name(tokens: Sequence[_Token], last: int) -> int:
    while (after := _continued(tokens, last)) is not None:
        last = after
    return last


def _continued(tokens: Sequence[_Token], last: int) -> int | None:
    """Return the next token of a name with capitals; `None`: the name ends at `last`."""
    if last + 1 < len(tokens) and _is_capitalised_name(tokens[last + 1]):
        return last + 1
    joined = range(last + 1, min(last + 3, len(tokens) - 1))
    for index in joined:
        if tokens[index].plain not in JOINING:
            return None
        if _is_capitalised_name(tokens[index + 1]):
            return index + 1
    return None


def _capitalised_rank(tokens: Sequence[_Token], index: int, last: int) -> int:
    before = next((each.plain for each in reversed(tokens[:index]) if each.plain not in KINDS | {"of"}), "")
    beside = tokens[last + 1] if last + 1 < len(tokens) else None
    if before in STRONG:
        return 0
    if _is_beside(before) or (beside is not None and _is_beside(beside.plain)):
        return 2
    if before in WEAK:
        return 3
    if before in ORIGIN:
        return 9
    # Every sentence begins with a capital: a single word there is rather no name.
    return 5 if index and tokens[index - 1].text not in ('"', "„", "(", MASK) else 31


def _after_kinds(tokens: Sequence[_Token], index: int) -> int:
    """Return the first token behind "the city of"; `index` if there are no such words."""
    at = index
    while at < len(tokens) - 1 and tokens[at].plain in KINDS | {"of"}:
        at += 1
    return index if at == index + 1 and tokens[index].plain == "the" else at


def _lower_case(tokens: Sequence[_Token], index: int) -> int | None:
    """Return the last token of the name in lower case that begins at `index`; `None`: no name begins there."""
    last = None
    for at in range(index, min(index + MAX_LOWER_CASE_WORDS, len(tokens))):
        if not _is_name(tokens[at]):
            break
        last = at
    if last is None or tokens[index].plain in NO_PLACES:
        return None
    region = last + 2
    if (
        region < len(tokens)
        and tokens[last + 1].text == ","
        and _ends_at(tokens, region + 1)
        and _is_name(tokens[region])
    ):
        return region
    return last


def _beside_weather(tokens: Sequence[_Token], index: int) -> int | None:
    """Return the last token of a name beside a word of the weather: "weather san francisco", "gdansk pogoda"."""
    earlier = [each for each in tokens[:index] if each.is_word]
    last = _lower_case(tokens, index)
    if last is None:
        return None
    if earlier:
        return last if _is_beside(earlier[-1].plain) and _ends_at(tokens, last + 1) else None
    later = next((each for each in tokens[last + 1 :] if each.is_word), None)
    only = later is None and any(each.text == MASK for each in tokens)
    return last if only or (later is not None and _is_beside(later.plain)) else None


def _ends_at(tokens: Sequence[_Token], index: int) -> bool:
    return index >= len(tokens) or not tokens[index].is_word or tokens[index].plain in ("please", "pls", "prosze")


def _is_capitalised_name(token: _Token) -> bool:
    return token.is_capitalised and _is_name(token)


def _is_name(token: _Token) -> bool:
    """Return whether a word can be part of a place's name."""
    return token.is_word and token.plain not in STOPS and not _is_weather(token)


def _is_weather(token: _Token) -> bool:
    return WEATHER.fullmatch(token.plain) is not None


def _is_beside(word: str) -> bool:
    return BESIDE.fullmatch(word) is not None


def _tokens(text: str, offset: int = 0) -> list[_Token]:
    return [
        _Token(match[0], without_diacritics(match[0]).rstrip("."), offset + match.start(), offset + match.end())
        for match in _TOKEN.finditer(text)
    ]
