"""Converts records of conversations and messages to the response models of the chat API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from chat_ui.history import records
from chat_ui.history.conversation_lists import ListedConversation
from chat_ui.history.search_settings import SearchSettings
from chat_ui.history.steps import FILE_SEARCH, Step
from chat_ui.http.schemas import conversations as schemas
from stored_objects.images.results import BlobAddress, with_addresses

_NOT_SHARED = ("settings", "error", "usage", "cost_nano")
"""Fields of a message that a share link does not show."""


def settings_of(body: schemas.SettingsBody) -> records.ModelSettings:
    """Convert the model settings in a request body to the record that conversations store; nothing is stored."""
    names = {name: tuple(getattr(body, name)) for name in ("tools_off", "tools_allowed", "vector_stores")}
    search = None if body.test_time_compute is None else SearchSettings(**body.test_time_compute.model_dump())
    return records.ModelSettings(**{**body.model_dump(), **names, "test_time_compute": search})


def step(value: Step, address: BlobAddress) -> schemas.Step:
    """Convert a step of an answer to a response model, with the address of each image (`url`) beside its blob id."""
    return schemas.Step.model_validate(replace(value, data=with_addresses(value.data, address)))


def message(value: records.Message, address: BlobAddress, *, is_shared: bool = False) -> schemas.Message:
    """Convert one message to a response model; if `is_shared`, without settings, cost, usage and error.

    A shared answer from documents has no steps either: they name files and may quote passages, which readers of the
    link have no right to.
    """
    is_from_documents = any(each.kind == FILE_SEARCH for each in value.steps)
    steps = [] if is_shared and is_from_documents else [step(each, address) for each in value.steps]
    shown = schemas.Message.model_validate(replace(value, steps=[], images=[]))
    images = [schemas.AttachedImage(name=each.name, size=each.size, url=address(each.blob)) for each in value.images]
    shown = shown.model_copy(update={"steps": steps, "images": images})
    return shown.model_copy(update=dict.fromkeys(_NOT_SHARED)) if is_shared else shown


def row(value: ListedConversation) -> schemas.ConversationRow:
    """Convert a conversation, without its messages, to the response model of a row in a list."""
    return schemas.ConversationRow.model_validate(_fields(value))


def conversation(
    value: ListedConversation, messages: Sequence[records.Message], address: BlobAddress
) -> schemas.Conversation:
    """Convert a conversation and the messages of all its branches to a response model for its owner."""
    shown = [message(each, address) for each in messages]
    return schemas.Conversation.model_validate({**_fields(value), "messages": shown})


def shared(
    value: records.Conversation, branch: Sequence[records.Message], address: BlobAddress
) -> schemas.SharedConversation:
    """Convert a conversation and one branch to the response model of a share link, which hides the owner."""
    return schemas.SharedConversation(
        title=value.title,
        created=value.created,
        updated=value.updated,
        messages=[message(each, address, is_shared=True) for each in branch],
    )


def _fields(value: ListedConversation) -> dict[str, Any]:
    one = value.conversation
    return {**vars(one), "model": one.settings.model, "running": value.running, "match": value.match}
