"""Defines the types of the tool call parser: the markup around a model's calls, and the spans of parsed text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Markup:
    """Markup of tool calls: between opener and closer is one call as an object, or a list of calls.

    A marker must not repeat its first character, so that a failed match never overlaps another one.
    """

    opener: str = ""
    closer: str = ""
    bare: bool = False
    """Whether a message that begins with a call needs no opener."""
    separator: str = ""
    """Separator of calls outside a list."""
    named: bool = False
    """Whether a call may also be `name[ARGS]{...}`."""
    tokens: frozenset[str] = frozenset()
    """Control tokens of the markup."""


class SpanKind(Enum):
    """Whether a span of raw text is text for the client, arguments of a call, or markup (not sent)."""

    TEXT = "text"
    ARGUMENTS = "arguments"
    MARKUP = "markup"


@dataclass(frozen=True)
class Span:
    """`length` characters of the raw text. The first span of a call's arguments has the function's `name`."""

    length: int
    kind: SpanKind
    text: str = ""
    call: int = 0
    name: str = ""

    def split(self, at: int) -> tuple[Span, Span]:
        """Split the span after its first `at` characters into two spans of the same kind and call."""
        return (
            Span(at, self.kind, self.text[:at], self.call, self.name),
            Span(self.length - at, self.kind, self.text[at:], self.call),
        )
