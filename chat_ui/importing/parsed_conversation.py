"""Converts conversations parsed from export files to chat records within size limits; reads untrusted JSON fields.

Files are untrusted: times, texts and sizes are checked, and conversations that are too large or invalid are skipped
with a reason. Ids are digests of the owner and the content, so importing a conversation again gives the same ids.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chat_ui.history.limits import (
    MAX_ANSWER_CHARS,
    MAX_ATTACHMENT_BYTES,
    MAX_ATTACHMENTS,
    MAX_CONVERSATION_BYTES,
    MAX_MESSAGES,
    MAX_SYSTEM_CHARS,
    MAX_TITLE_CHARS,
)
from chat_ui.history.message_tree import by_id
from chat_ui.history.records import Attachment, Conversation, Message, ModelSettings, Owner, Role
from chat_ui.history.steps import Step, step_bytes
from chat_ui.importing.records import SkipReason

_ID_LENGTH = 32
_MIB = 1_048_576
MAX_NAME_CHARS = 200
"""Characters of a model's or a file's name."""


class ConversationSkipped(Exception):
    """Raised when a conversation of a file can't be imported. `limit` is the number that was exceeded, if any."""

    def __init__(self, reason: SkipReason, limit: int | None = None) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.limit = limit


@dataclass(frozen=True)
class ParsedMessage:
    """A message of an export file; `id` and `parent` are the file's own ids."""

    id: str
    parent: str | None
    role: Role
    text: str
    created: float | None = None
    settings: ModelSettings = field(default_factory=ModelSettings)
    """Settings with which the model was called."""
    attachments: Sequence[Attachment] = ()
    steps: Sequence[Step] = ()
    """Steps of an answer, within the limits of size."""


@dataclass(frozen=True)
class ParsedConversation:
    """A conversation of an export file. A parent that is not among `messages` counts as `None`."""

    title: str
    created: float
    updated: float
    messages: Sequence[ParsedMessage]
    leaf: str | None
    archived: bool = False
    pinned: bool = False
    settings: ModelSettings = field(default_factory=ModelSettings)
    """Settings of the conversation; its model is replaced on import."""
    origin: str | None = None
    """The conversation's id in an export of this chat; `None` for other programs."""


def to_records(parsed: ParsedConversation, owner: Owner, model: str) -> tuple[Conversation, list[Message]]:
    """Convert a conversation parsed from an export file to a conversation and messages of `owner`; nothing is stored.

    `model` will answer new questions in the conversation.

    Raises:
        ConversationSkipped: the conversation is empty or exceeds a limit.
    """
    if not parsed.messages:
        raise ConversationSkipped(SkipReason.NO_TEXT)
    if len(parsed.messages) > MAX_MESSAGES:
        raise ConversationSkipped(SkipReason.TOO_MANY_MESSAGES, MAX_MESSAGES)
    size = sum(map(_size, parsed.messages))
    if size > MAX_CONVERSATION_BYTES:
        raise ConversationSkipped(SkipReason.TOO_LARGE, MAX_CONVERSATION_BYTES // _MIB)
    messages_by_id = by_id(parsed.messages)
    leaf = parsed.leaf if parsed.leaf in messages_by_id else parsed.messages[-1].id
    key = _key(owner, parsed)
    ids = {each: f"msg-{_digest(key, each)}" for each in messages_by_id}
    settings = replace(parsed.settings, model=model, system=parsed.settings.system[:MAX_SYSTEM_CHARS])
    conversation = Conversation(
        id=f"conv-{key}",
        title=" ".join(parsed.title.split())[:MAX_TITLE_CHARS],
        created=parsed.created,
        updated=parsed.updated,
        settings=settings,
        leaf=ids[leaf],
        archived=parsed.archived,
        pinned=parsed.pinned,
        messages=len(messages_by_id),
        size=size,
    )
    return conversation, _convert_messages(conversation, parsed, ids)


def _key(owner: Owner, parsed: ParsedConversation) -> str:
    """Return a digest of owner and messages, independent of title and times."""
    parts = (part for each in parsed.messages for part in (each.id, each.parent or "", each.role.value, each.text))
    return _digest(owner.organisation, owner.user, *parts)


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode(errors="replace")
        digest.update(b"%d:" % len(encoded) + encoded)
    return digest.hexdigest()[:_ID_LENGTH]


def _size(message: ParsedMessage) -> int:
    """Return the bytes of a message, its steps and its files.

    Raises:
        ConversationSkipped: the files are more or larger than a question may have.
    """
    if len(message.attachments) > MAX_ATTACHMENTS:
        raise ConversationSkipped(SkipReason.TOO_MANY_FILES, MAX_ATTACHMENTS)
    file_bytes = sum(each.size for each in message.attachments)
    if file_bytes > MAX_ATTACHMENT_BYTES:
        raise ConversationSkipped(SkipReason.FILES_TOO_LARGE, MAX_ATTACHMENT_BYTES // _MIB)
    return len(message.text.encode(errors="replace")) + step_bytes(message.steps) + file_bytes


def _convert_messages(conversation: Conversation, parsed: ParsedConversation, ids: Mapping[str, str]) -> list[Message]:
    """Convert the messages, with times corrected so that each is later than its parent."""
    converted: dict[str, Message] = {}
    messages_by_id = by_id(parsed.messages)
    for each in parsed.messages:
        for node in reversed(_unconverted_path(messages_by_id, each, converted)):
            converted[node.id] = _message(node, converted.get(node.parent or ""), conversation, ids[node.id])
    return list(converted.values())


def _unconverted_path(
    messages_by_id: Mapping[str, ParsedMessage], leaf: ParsedMessage, converted: Mapping[str, Message]
) -> list[ParsedMessage]:
    """Return a message and its ancestors that are not converted yet; cycles are broken."""
    path: dict[str, ParsedMessage] = {}
    node: ParsedMessage | None = leaf
    while node is not None and node.id not in converted and node.id not in path:
        path[node.id] = node
        node = messages_by_id.get(node.parent or "")
    return list(path.values())


def _message(node: ParsedMessage, parent: Message | None, conversation: Conversation, message_id: str) -> Message:
    earliest = conversation.created if parent is None else parent.created + 0.001
    message = Message(
        id=message_id,
        conversation=conversation.id,
        parent=None if parent is None else parent.id,
        role=node.role,
        text=node.text[:MAX_ANSWER_CHARS],
        created=max(earliest, node.created or 0.0),
        attachments=list(node.attachments) if node.role is Role.USER else (),
    )
    if node.role is Role.ASSISTANT:
        settings = node.settings
        cut = replace(settings, model=settings.model[:MAX_NAME_CHARS], system=settings.system[:MAX_SYSTEM_CHARS])
        message = replace(message, settings=cut, steps=list(node.steps))
    return message


# Reading of untrusted decoded JSON


def mapping(value: Any) -> Mapping[str, Any]:
    """Return `value`, from an untrusted file, if it is a JSON object, else an empty mapping."""
    return value if isinstance(value, dict) else {}


def text(value: Any) -> str:
    """Return `value`, from an untrusted file, if it is a string, else an empty string."""
    return value if isinstance(value, str) else ""


def identifier(value: Any) -> str | None:
    """Return `value`, from an untrusted file, if it is a non-empty string, to use it as an id; else `None`."""
    return value if isinstance(value, str) and value else None


def number(value: Any, least: float, most: float) -> float | None:
    """Return `value`, from an untrusted file, if it is a number from `least` to `most`; else `None`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and least <= value <= most else None


def seconds(value: Any) -> float | None:
    """Convert an untrusted Unix time in seconds, milli-, micro- or nanoseconds to seconds; `None` if not positive."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value <= 0:
        return None
    number = float(value)
    while number > 1e11:
        number /= 1000
    return number
