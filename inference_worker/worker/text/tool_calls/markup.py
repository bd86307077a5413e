"""The words of the reader of calls: how a model marks calls, and what becomes of each character of its text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Markup:
    """How a model marks calls. A marker's first character is in it only once, so a failed match never overlaps another.

    Between opener and closer: one call as an object, or a list of them.
    """

    opener: str = ""
    closer: str = ""
    bare: bool = False
    """A message that begins like a call needs no opener."""
    separator: str = ""
    """Between calls that are in no list."""
    named: bool = False
    """A call may be `name[ARGS]{...}` instead."""
    tokens: frozenset[str] = frozenset()
    """Control tokens that are a part of it."""


class Kind(Enum):
    """What a stretch of raw text is to the client."""

    TEXT = "text"
    ARGUMENTS = "arguments"
    MARKUP = "markup"


@dataclass(frozen=True)
class Span:
    """So many characters of the raw text. `name` (of the call's function) comes with the first of its arguments."""

    length: int
    kind: Kind
    text: str = ""
    call: int = 0
    name: str = ""

    def split(self, at: int) -> tuple[Span, Span]:
        """The first `at` characters, and the others."""
        return (
            Span(at, self.kind, self.text[:at], self.call, self.name),
            Span(self.length - at, self.kind, self.text[at:], self.call),
        )
