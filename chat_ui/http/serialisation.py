"""Converts conversations and messages to the response models of the chat API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chat_ui.history import records
from chat_ui.history.conversation_lists import ListedConversation
from chat_ui.http.schemas import conversations as schemas

_NOT_SHARED = ("settings", "error", "usage", "cost_nano")
"""Fields of a message that a share link does not show."""


def settings_of(body: schemas.SettingsBody) -> records.ModelSettings:
    """Convert the model settings of a request body to a record."""
    return records.ModelSettings(**{**body.model_dump(), "tools_off": tuple(body.tools_off)})


def message(value: records.Message, *, is_shared: bool = False) -> schemas.Message:
    """Convert a message to a response model; if `is_shared`, without settings, cost, usage and error."""
    shown = schemas.Message.model_validate(value)
    return shown.model_copy(update=dict.fromkeys(_NOT_SHARED)) if is_shared else shown


def row(value: ListedConversation) -> schemas.ConversationRow:
    """Convert a conversation in a list to the response model of a list's row."""
    return schemas.ConversationRow.model_validate(_fields(value))


def conversation(value: ListedConversation, messages: Sequence[records.Message]) -> schemas.Conversation:
    """Convert a conversation with the messages of all its branches to a response model."""
    return schemas.Conversation.model_validate({**_fields(value), "messages": messages})


def shared(value: records.Conversation, branch: Sequence[records.Message]) -> schemas.SharedConversation:
    """Convert a conversation and one branch to the response model of a share link, which hides the owner."""
    return schemas.SharedConversation(
        title=value.title,
        created=value.created,
        updated=value.updated,
        messages=[message(each, is_shared=True) for each in branch],
    )


def _fields(value: ListedConversation) -> dict[str, Any]:
    one = value.conversation
    return {**vars(one), "model": one.settings.model, "running": value.running, "match": value.match}
