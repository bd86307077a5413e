"""Converts stored records to the response models of the chat API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chat_ui.history import records
from chat_ui.history.conversation_lists import ListedConversation
from chat_ui.http.schemas import conversations as schemas
from chat_ui.http.schemas import imports as import_schemas
from chat_ui.http.schemas.presets import Preset
from chat_ui.importing.records import Import


def settings_of(body: schemas.SettingsBody) -> records.ModelSettings:
    """Convert the model settings of a request body to a record."""
    return records.ModelSettings(**body.model_dump())


def settings(value: records.ModelSettings) -> schemas.ModelSettings:
    """Convert a record of model settings to a response model."""
    return schemas.ModelSettings(**vars(value))


def message(value: records.Message, *, is_shared: bool = False) -> schemas.Message:
    """Convert a message to a response model; if `is_shared`, without cost, usage, error and system prompt."""
    details: dict[str, Any] = {}
    if not is_shared:
        details = {
            "settings": None if value.settings is None else settings(value.settings),
            "error": None if value.error is None else schemas.AnswerError(**vars(value.error)),
            "usage": None if value.usage is None else schemas.TokenUsage(**vars(value.usage)),
            "cost_nano": value.cost,
        }
    return schemas.Message(
        id=value.id,
        parent=value.parent,
        role=value.role.value,
        text=value.text,
        created=value.created,
        attachments=[schemas.Attachment(name=each.name, size=each.size) for each in value.attachments],
        model=value.model,
        state=value.state.value,
        finish_reason=value.finish_reason,
        seconds=value.seconds,
        first_token_seconds=value.first_token_seconds,
        **{"settings": None, "error": None, "usage": None, "cost_nano": None} | details,
    )


def row(value: ListedConversation) -> schemas.ConversationRow:
    """Convert a conversation of a list to a response model."""
    return schemas.ConversationRow(**_row(value))


def conversation(value: ListedConversation, messages: Sequence[records.Message]) -> schemas.Conversation:
    """Convert a conversation with the messages of all its branches to a response model."""
    return schemas.Conversation(
        **_row(value),
        settings=settings(value.conversation.settings),
        leaf=value.conversation.leaf,
        messages=[message(each) for each in messages],
    )


def shared(value: records.Conversation, branch: Sequence[records.Message]) -> schemas.SharedConversation:
    """Convert a conversation and one branch to the response model of a share link, which hides the owner."""
    return schemas.SharedConversation(
        title=value.title,
        created=value.created,
        updated=value.updated,
        messages=[message(each, is_shared=True) for each in branch],
    )


def preset(value: records.Preset) -> Preset:
    """Convert a preset to a response model."""
    return Preset(id=value.id, name=value.name, settings=settings(value.settings))


def import_of(value: Import) -> import_schemas.Import:
    """Convert the record of an import with its progress to a response model."""
    return import_schemas.Import(
        id=value.id,
        state=value.state.value,
        begun=value.begun,
        total=value.total,
        done=value.done,
        imported=value.imported,
        known=value.known,
        skipped=[import_schemas.SkippedConversation(**vars(each)) for each in value.skipped],
    )


def _row(value: ListedConversation) -> dict[str, Any]:
    one = value.conversation
    return {
        "id": one.id,
        "title": one.title,
        "created": one.created,
        "updated": one.updated,
        "pinned": one.pinned,
        "archived": one.archived,
        "shared": one.shared,
        "model": one.settings.model,
        "running": value.running,
        "match": value.match,
    }
