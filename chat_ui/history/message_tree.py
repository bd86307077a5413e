"""Finds branches in the message tree of a conversation, by the ids of messages and of their parents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar


class Node(Protocol):
    """A node of the tree: anything with an id and a parent's id."""

    @property
    def id(self) -> str:
        """The id of the message in the tree."""
        ...

    @property
    def parent(self) -> str | None:
        """The id of the message that this one follows; `None` for a root of the tree."""
        ...


N = TypeVar("N", bound=Node)


def branch(messages: Mapping[str, N], leaf: str | None) -> list[N]:
    """Return a conversation's branch from the root to the message with the id `leaf`; an empty list for `None`.

    `messages`: the conversation's messages by id. A missing or repeated parent counts as none.
    """
    found: list[N] = []
    seen: set[str] = set()
    node = messages.get(leaf) if leaf is not None else None
    while node is not None and node.id not in seen:
        seen.add(node.id)
        found.append(node)
        node = messages.get(node.parent) if node.parent is not None else None
    return found[::-1]


def by_id(messages: Sequence[N]) -> dict[str, N]:
    """Return a dictionary of the messages by their ids, in the order of the list."""
    return {message.id: message for message in messages}
