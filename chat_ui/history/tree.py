"""Walks through the tree of a conversation. Knows only who follows whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar


class Node(Protocol):
    """A message, as far as the tree goes."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def parent(self) -> str | None:
        """What it follows."""
        ...


N = TypeVar("N", bound=Node)


def branch(messages: Mapping[str, N], leaf: str | None) -> list[N]:
    """The messages from the beginning to `leaf`. One whose parent is gone is a beginning; a circle is cut."""
    found: list[N] = []
    seen: set[str] = set()
    at = messages.get(leaf) if leaf is not None else None
    while at is not None and at.id not in seen:
        seen.add(at.id)
        found.append(at)
        at = messages.get(at.parent) if at.parent is not None else None
    return found[::-1]


def by_id(messages: Sequence[N]) -> dict[str, N]:
    """Messages by their ids."""
    return {message.id: message for message in messages}
