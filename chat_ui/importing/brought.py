"""Conversations parsed from an export file, and their conversion to records of the chat.

Files are untrusted: times, texts and sizes are checked, and conversations that are too large or invalid are skipped
with a reason. Ids are digests of the owner and the content, so importing a conversation again gives the same ids.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chat_ui.history.bounds import (
    LARGEST_ATTACHMENTS,
    LARGEST_CONVERSATION,
    LONGEST_ANSWER,
    LONGEST_SYSTEM,
    LONGEST_TITLE,
    MOST_ATTACHMENTS,
    MOST_MESSAGES,
)
from chat_ui.history.records import Attachment, Conversation, Message, ModelSettings, Owner, Role
from chat_ui.history.tree import by_id
from chat_ui.importing.records import SkipReason

_ID_LENGTH = 32
_MIB = 1_048_576
LONGEST_NAME = 200
"""Characters of a model's or a file's name."""


class LeftOut(Exception):
    """A conversation can't be imported. `limit` as in `records.Skipped`."""

    def __init__(self, reason: SkipReason, limit: int | None = None) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.limit = limit


@dataclass(frozen=True)
class BroughtMessage:
    """A message of an export file, with the ids of the file."""

    id: str
    parent: str | None
    role: Role
    text: str
    created: float | None = None
    settings: ModelSettings = field(default_factory=ModelSettings)
    """Settings with which the model was called."""
    attachments: Sequence[Attachment] = ()


@dataclass(frozen=True)
class Brought:
    """A conversation of an export file. A parent that is not among `messages` counts as `None`."""

    title: str
    created: float
    updated: float
    messages: Sequence[BroughtMessage]
    leaf: str | None
    archived: bool = False
    pinned: bool = False
    settings: ModelSettings = field(default_factory=ModelSettings)
    """Settings of the conversation; its model is replaced on import."""
    origin: str | None = None
    """The conversation's id in an export of this chat; `None` for other programs."""


def ours(brought: Brought, owner: Owner, model: str) -> tuple[Conversation, list[Message]]:
    """Convert to records of the owner; `model` is the one that answers new questions in the conversation.

    Raises:
        LeftOut: the conversation is empty or exceeds a limit.
    """
    if not brought.messages:
        raise LeftOut(SkipReason.NO_TEXT)
    if len(brought.messages) > MOST_MESSAGES:
        raise LeftOut(SkipReason.TOO_MANY_MESSAGES, MOST_MESSAGES)
    size = sum(map(_size, brought.messages))
    if size > LARGEST_CONVERSATION:
        raise LeftOut(SkipReason.TOO_LARGE, LARGEST_CONVERSATION // _MIB)
    there = by_id(brought.messages)
    leaf = brought.leaf if brought.leaf in there else brought.messages[-1].id
    key = _key(owner, brought)
    ids = {each: f"msg-{_digest(key, each)}" for each in there}
    settings = replace(brought.settings, model=model, system=brought.settings.system[:LONGEST_SYSTEM])
    conversation = Conversation(
        id=f"conv-{key}",
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


def _key(owner: Owner, brought: Brought) -> str:
    """Return a digest of owner and messages, independent of title and times."""
    said = (part for each in brought.messages for part in (each.id, each.parent or "", each.role.value, each.text))
    return _digest(owner.organisation, owner.user, *said)


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode(errors="replace")
        digest.update(b"%d:" % len(encoded) + encoded)
    return digest.hexdigest()[:_ID_LENGTH]


def _size(message: BroughtMessage) -> int:
    """Return the bytes of a message and its files.

    Raises:
        LeftOut: the files are more or larger than a question may have.
    """
    if len(message.attachments) > MOST_ATTACHMENTS:
        raise LeftOut(SkipReason.TOO_MANY_FILES, MOST_ATTACHMENTS)
    of_files = sum(each.size for each in message.attachments)
    if of_files > LARGEST_ATTACHMENTS:
        raise LeftOut(SkipReason.FILES_TOO_LARGE, LARGEST_ATTACHMENTS // _MIB)
    return len(message.text.encode(errors="replace")) + of_files


def _in_order(conversation: Conversation, brought: Brought, ids: Mapping[str, str]) -> list[Message]:
    """Convert the messages, with times corrected so that each is later than its parent."""
    made: dict[str, Message] = {}
    there = by_id(brought.messages)
    for each in brought.messages:
        for node in reversed(_unmade(there, each, made)):
            made[node.id] = _message(node, made.get(node.parent or ""), conversation, ids[node.id])
    return list(made.values())


def _unmade(
    there: Mapping[str, BroughtMessage], leaf: BroughtMessage, made: Mapping[str, Message]
) -> list[BroughtMessage]:
    """Return a message and its ancestors that are not converted yet; cycles are broken."""
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
        attachments=list(node.attachments) if node.role is Role.USER else (),
    )
    if node.role is Role.ASSISTANT:
        settings = node.settings
        cut = replace(settings, model=settings.model[:LONGEST_NAME], system=settings.system[:LONGEST_SYSTEM])
        message = replace(message, settings=cut)
    return message


# Reading of untrusted decoded JSON


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object; empty if the value is something else."""
    return value if isinstance(value, dict) else {}


def text(value: Any) -> str:
    """Return a string; empty if the value is something else."""
    return value if isinstance(value, str) else ""


def identity(value: Any) -> str | None:
    """Return a non-empty string as an id; `None` if the value is something else."""
    return value if isinstance(value, str) and value else None


def number(value: Any, least: float, most: float) -> float | None:
    """Return a number within bounds; `None` if the value is something else."""
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_one and least <= value <= most else None


def seconds(value: Any) -> float | None:
    """Return a time in Unix seconds, given in seconds, milli-, micro- or nanoseconds; `None` if it is invalid."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value <= 0:
        return None
    number = float(value)
    while number > 1e11:
        number /= 1000
    return number
