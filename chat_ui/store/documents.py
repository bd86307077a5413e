"""Converts the chat's conversations, messages and presets to MongoDB documents and back; builds filters by owner."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from typing import Any

from auth_billing.store.documents import from_document
from chat_ui.history.presets import Preset
from chat_ui.history.records import (
    AnswerError,
    AttachedImage,
    Attachment,
    Conversation,
    Message,
    ModelSettings,
    Owner,
    QueueStatus,
    Role,
    State,
    TokenUsage,
)
from chat_ui.history.search_settings import SearchSettings
from chat_ui.history.steps import Step, StepState, encoded


def _settings_from(**stored: Any) -> ModelSettings:
    names = {name: tuple(stored.get(name, ())) for name in ("tools_off", "tools_allowed", "vector_stores")}
    stored_search = stored.get("test_time_compute")
    search = None if stored_search is None else SearchSettings(**stored_search)
    return ModelSettings(**{**stored, **names, "test_time_compute": search})


_MESSAGE = {each.name for each in fields(Message)} - {"id"}
_PARTS: dict[str, Callable[..., Any]] = {
    "settings": _settings_from,
    "error": AnswerError,
    "usage": TokenUsage,
    "waiting": QueueStatus,
}
"""Fields of a message that are records of their own, if they are set."""
_CONVERSATION = {each.name for each in fields(Conversation)} - {"id"}


def owned_by(owner: Owner, **more: Any) -> dict[str, Any]:
    """Return a MongoDB filter for the documents of an owner whose fields have the values `more`.

    The most selective fields come first: the embedded store uses the index of the first field that has one, and reads
    every entry that it gives.
    """
    return {**more, "user": owner.user, "organisation": owner.organisation}


def owner_from(document: dict[str, Any]) -> Owner:
    """Return the owner (organisation and user) of a MongoDB document of a conversation, message or preset."""
    return Owner(document["organisation"], document["user"])


def to_stored(value: Any) -> Any:
    """Convert a record field's value to MongoDB types: enums to values, sequences to lists, dataclasses to dicts.

    A step's data becomes a text of JSON, because MongoDB can't store every key and number.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Step):
        return {**vars(value), "state": value.state.value, "data": encoded(value.data)}
    if isinstance(value, list | tuple):
        return [to_stored(each) for each in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def message_document(owner: Owner, message: Message) -> dict[str, Any]:
    """Convert a message with its owner to a MongoDB document; fields that are `None` are left out."""
    stored = {name: to_stored(value) for name in _MESSAGE if (value := getattr(message, name)) is not None}
    return {"_id": message.id, **owned_by(owner), **stored}


def message_from(document: dict[str, Any]) -> Message:
    """Convert a MongoDB document of the chat to a message; attachments lack their text if the query left it out."""
    attachments = [Attachment(each["name"], each.get("text", ""), each["size"]) for each in document["attachments"]]
    parts = {name: kind(**document[name]) for name, kind in _PARTS.items() if document.get(name) is not None}
    return from_document(
        Message,
        document,
        parent=document.get("parent"),
        role=Role(document["role"]),
        state=State(document["state"]),
        attachments=attachments,
        images=[AttachedImage(**each) for each in document.get("images", ())],
        steps=[_step_from(each) for each in document.get("steps", ())],
        **parts,
    )


def _step_from(document: dict[str, Any]) -> Step:
    return Step(**{**document, "state": StepState(document["state"]), "data": json.loads(document["data"])})


def conversation_document(owner: Owner, conversation: Conversation) -> dict[str, Any]:
    """Convert a conversation with its owner and its sort key (`order`) to a MongoDB document."""
    stored = {name: to_stored(getattr(conversation, name)) for name in _CONVERSATION}
    return {"_id": conversation.id, **owned_by(owner), **stored, "order": conversation.order}


def conversation_from(document: dict[str, Any]) -> Conversation:
    """Convert a MongoDB document of the chat to a conversation, without its messages."""
    return from_document(Conversation, document, settings=_settings_from(**document["settings"]))


def preset_from(document: dict[str, Any]) -> Preset:
    """Convert a MongoDB document of the chat to a preset (a named set of model settings)."""
    return Preset(document["_id"], document["name"], _settings_from(**document["settings"]))
