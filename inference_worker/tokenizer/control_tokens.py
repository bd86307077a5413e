"""Escapes control tokens in users' text, so that only those of the chat template act as control tokens in a prompt.

`<|im_start|>` inside a message must reach the model as plain text, or users could forge turns of the conversation
(and, with placeholder tokens, crash models: CVE-2026-44222). Templates inspect contents (trim, split, `in`), so
contents can't be replaced by placeholders during rendering. Instead a marker, a Unicode noncharacter, is inserted
after the first character of each control token in users' strings; the template is rendered; then only unbroken
control tokens count, and the markers are removed before the text between them is tokenised.

A string that *ends* with the beginning of a control token gets a marker too, so that two strings can't be joined
into one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar, cast

MARKERS = "".join(chr(code) for code in range(0xFDD0, 0xFDF0))
"""Possible markers: noncharacters, which Unicode reserves for internal use (Unicode 15, section 23.7)."""

Json = TypeVar("Json")


@dataclass(frozen=True)
class ControlToken:
    """A special token of a vocabulary. `left_strip`, `right_strip`: whether it absorbs whitespace before, after it."""

    text: str
    id: int
    left_strip: bool = False
    right_strip: bool = False


@dataclass(frozen=True)
class PlainText:
    """A part of a rendered prompt without control tokens. `first`: whether the prompt begins with this part."""

    text: str
    first: bool


class ControlTokens:
    """The control tokens of one vocabulary: finds them in rendered prompts and escapes them in users' text."""

    def __init__(self, tokens: Iterable[ControlToken]) -> None:
        # A marker can't break a single character; no known model has such a control token.
        self._tokens = {token.text: token for token in tokens if len(token.text) > 1}
        longest_first = sorted(self._tokens, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._beginnings = {text[:end] for text in self._tokens for end in range(1, len(text))}
        self._longest_beginning = max(map(len, self._beginnings), default=0)
        self.ids_by_text = {text: token.id for text, token in self._tokens.items()}
        self.ids = frozenset(self.ids_by_text.values())

    def ids_of(self, texts: Iterable[str]) -> frozenset[int]:
        """Return the token ids of those of `texts` that are control tokens of this vocabulary."""
        return frozenset(self.ids_by_text[text] for text in texts if text in self.ids_by_text)

    def protect(self, value: Json, marker: str) -> Json:
        """Return a copy of a JSON value in which `marker` breaks every control token in strings and keys."""
        return cast(Json, self._protect(value, marker))

    def _protect(self, value: object, marker: str) -> object:
        if isinstance(value, str):
            return self._break(value, marker)
        if isinstance(value, dict):
            return {self._protect(key, marker): self._protect(item, marker) for key, item in value.items()}
        if isinstance(value, list):
            return [self._protect(item, marker) for item in value]
        return value

    def _break(self, text: str, marker: str) -> str:
        # Repeat until nothing changes: breaking one token may leave another that overlapped it.
        while (broken := self._pattern.sub(lambda match: match[0][0] + marker + match[0][1:], text)) != text:
            text = broken
        longest = min(self._longest_beginning, len(text))
        if any(text[-length:] in self._beginnings for length in range(1, longest + 1)):
            return text + marker
        return text

    def split(self, rendered: str, marker: str) -> Iterator[int | PlainText]:
        """Yield the parts of a prompt that a chat template `rendered`, in order: ids of control tokens, text between.

        Control tokens that `protect` broke are text; `marker` is removed.
        """
        at, strip = 0, False
        for match in self._pattern.finditer(rendered):
            token = self._tokens[match[0]]
            text = rendered[at : match.start()]
            text = text.lstrip() if strip else text
            text = text.rstrip() if token.left_strip else text
            if text:
                yield PlainText(text.replace(marker, ""), first=at == 0)
            yield token.id
            at, strip = match.end(), token.right_strip
        rest = rendered[at:].lstrip() if strip else rendered[at:]
        if rest:
            yield PlainText(rest.replace(marker, ""), first=at == 0)


def unused_marker(texts: Iterable[str]) -> str:
    """Return a marker character that none of `texts` contains, for `ControlTokens.protect`.

    "" if all markers occur, as only in hostile texts.
    """
    joined = set().union(*map(set, texts))
    return next((marker for marker in MARKERS if marker not in joined), "")


def strings(value: object) -> Iterator[str]:
    """Yield every string in a JSON value, the keys of its objects too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
