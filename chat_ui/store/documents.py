"""Converts records of conversations, messages and presets to MongoDB documents and back."""

from __future__ import annotations

from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from typing import Any

from chat_ui.history.records import (
    AnswerError,
    Attachment,
    Conversation,
    Message,
    ModelSettings,
    Owner,
    Preset,
    QueueStatus,
    Role,
    State,
    TokenUsage,
)

_MESSAGE = {each.name for each in fields(Message)} - {"id"}
_CONVERSATION = {each.name for each in fields(Conversation)} - {"id"}


def owned_by(owner: Owner, **more: Any) -> dict[str, Any]:
    """Return a filter that matches only the owner's documents.

    The most selective fields come first: the embedded store uses the index of the first field that has one, and reads
    every entry that it gives.
    """
    return {**more, "user": owner.user, "organisation": owner.organisation}


def owner_from(document: dict[str, Any]) -> Owner:
    """Return the owner of a document."""
    return Owner(document["organisation"], document["user"])


def to_stored(value: Any) -> Any:
    """Return a field's value as stored."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [to_stored(each) for each in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def message_document(owner: Owner, message: Message) -> dict[str, Any]:
    """Return a message with its owner as a document; fields that are `None` are left out."""
    stored = {name: to_stored(value) for name in _MESSAGE if (value := getattr(message, name)) is not None}
    return {"_id": message.id, **owned_by(owner), **stored}


def message_from(document: dict[str, Any]) -> Message:
    """Return the message of a document; attachments may be without their text."""
    known = {name: document[name] for name in _MESSAGE & document.keys()}
    attachments = [Attachment(each["name"], each.get("text", ""), each["size"]) for each in known["attachments"]]
    settings, error, usage = known.get("settings"), known.get("error"), known.get("usage")
    waiting = known.get("waiting")
    return Message(
        **known
        | {
            "id": document["_id"],
            "parent": known.get("parent"),
            "role": Role(known["role"]),
            "state": State(known["state"]),
            "attachments": attachments,
            "settings": None if settings is None else ModelSettings(**settings),
            "error": None if error is None else AnswerError(**error),
            "usage": None if usage is None else TokenUsage(**usage),
            "waiting": None if waiting is None else QueueStatus(**waiting),
        }
    )


def conversation_document(owner: Owner, conversation: Conversation) -> dict[str, Any]:
    """Return a conversation with its owner and its sort key as a document."""
    stored = {name: to_stored(getattr(conversation, name)) for name in _CONVERSATION}
    return {"_id": conversation.id, **owned_by(owner), **stored, "order": conversation.order}


def conversation_from(document: dict[str, Any]) -> Conversation:
    """Return the conversation of a document."""
    known = {name: document[name] for name in _CONVERSATION & document.keys()}
    return Conversation(id=document["_id"], **known | {"settings": ModelSettings(**known["settings"])})


def preset_from(document: dict[str, Any]) -> Preset:
    """Return the preset of a document."""
    return Preset(document["_id"], document["name"], ModelSettings(**document["settings"]))
