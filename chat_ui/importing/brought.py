"""What a file of another program holds, in our words, and how much of it is taken. Nothing in a file is trusted:

ids are new, times and texts are checked, what is too large or makes no sense is left out with a reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from auth_billing.ids import new_id
from chat_ui.history.bounds import (
    LARGEST_CONVERSATION,
    LONGEST_ANSWER,
    LONGEST_SYSTEM,
    LONGEST_TITLE,
    MOST_MESSAGES,
)
from chat_ui.history.records import Conversation, Message, ModelSettings, Role
from chat_ui.history.tree import branch, by_id


class NotUnderstood(Exception):
    """It is not what we know; the message is for people."""


@dataclass(frozen=True)
class BroughtMessage:
    """A turn, with the file's own ids."""

    id: str
    parent: str | None
    role: Role
    text: str
    created: float | None = None
    model: str = ""


@dataclass(frozen=True)
class Brought:
    """A conversation of a file. A parent that is not among `messages` is none."""

    title: str
    created: float
    updated: float
    messages: Sequence[BroughtMessage]
    leaf: str | None
    archived: bool = False
    pinned: bool = False
    system: str = ""


def ours(brought: Brought, model: str) -> tuple[Conversation, list[Message]]:
    """A conversation of ours, new; `model`: that it goes on with.

    Raises:
        NotUnderstood: there is nothing in it, or too much.
    """
    if not brought.messages:
        raise NotUnderstood("There is no text in it.")
    if len(brought.messages) > MOST_MESSAGES:
        raise NotUnderstood(f"It has more than {MOST_MESSAGES} messages.")
    size = sum(len(each.text.encode(errors="replace")) for each in brought.messages)
    if size > LARGEST_CONVERSATION:
        raise NotUnderstood(f"It has more than {LARGEST_CONVERSATION // 2**20} MiB of text.")
    there = by_id(brought.messages)
    leaf = brought.leaf if brought.leaf in there else brought.messages[-1].id
    if not branch(there, leaf):
        raise NotUnderstood("Its messages follow nobody.")
    ids = {each: new_id("msg-") for each in there}
    settings = ModelSettings(model=model, system=brought.system[:LONGEST_SYSTEM])
    conversation = Conversation(
        id=new_id("conv-"),
        title=" ".join(brought.title.split())[:LONGEST_TITLE],
        created=brought.created,
        updated=brought.updated,
        settings=settings,
        leaf=ids[leaf],
        archived=brought.archived,
        pinned=brought.pinned,
        messages=len(there),
        size=size,
    )
    return conversation, _in_order(conversation, brought, ids)


def _in_order(conversation: Conversation, brought: Brought, ids: Mapping[str, str]) -> list[Message]:
    """Messages with times that put each behind what it follows."""
    made: dict[str, Message] = {}
    there = by_id(brought.messages)
    for each in brought.messages:
        for node in reversed(_unmade(there, each, made)):
            made[node.id] = _message(node, made.get(node.parent or ""), conversation, ids[node.id])
    return list(made.values())


def _unmade(
    there: Mapping[str, BroughtMessage], leaf: BroughtMessage, made: Mapping[str, Message]
) -> list[BroughtMessage]:
    """A message and what is above it, up to what is made already; a circle is cut."""
    path: dict[str, BroughtMessage] = {}
    node: BroughtMessage | None = leaf
    while node is not None and node.id not in made and node.id not in path:
        path[node.id] = node
        node = there.get(node.parent or "")
    return list(path.values())


def _message(node: BroughtMessage, parent: Message | None, conversation: Conversation, message_id: str) -> Message:
    earliest = conversation.created if parent is None else parent.created + 0.001
    message = Message(
        id=message_id,
        conversation=conversation.id,
        parent=None if parent is None else parent.id,
        role=node.role,
        text=node.text[:LONGEST_ANSWER],
        created=max(earliest, node.created or 0.0),
    )
    if node.role is Role.ASSISTANT:
        message = replace(message, settings=ModelSettings(model=node.model[:200]))
    return message


# What decoded JSON of unknown origin says


def mapping(value: Any) -> Mapping[str, Any]:
    """An object; empty if it is something else."""
    return value if isinstance(value, dict) else {}


def text(value: Any) -> str:
    """A string; empty if it is something else."""
    return value if isinstance(value, str) else ""


def identity(value: Any) -> str | None:
    """An id, if it is one."""
    return value if isinstance(value, str) and value else None


def seconds(value: Any) -> float | None:
    """A time in Unix seconds, of seconds, milliseconds, microseconds or nanoseconds; `None`: it is none."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value <= 0:
        return None
    number = float(value)
    while number > 1e11:
        number /= 1000
    return number
