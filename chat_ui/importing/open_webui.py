"""Parses Open WebUI's "Export chats": a list of `{title, created_at, updated_at, archived, pinned, chat}`.

A chat is `{title, system, history: {currentId, messages: {ID: {parentId, role, content, model, timestamp}}}}`. The
export of a single chat is a list of one chat, or the chat without a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chat_ui.history.records import ModelSettings, Role
from chat_ui.importing.parsed_conversation import ParsedConversation, ParsedMessage, identifier, mapping, seconds, text

_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT}


def matches(value: Mapping[str, Any]) -> bool:
    """Return whether a decoded JSON object looks like a conversation of an Open WebUI export."""
    return bool(mapping(mapping(_chat(value)).get("history")))


def parse(value: Mapping[str, Any], now: float) -> ParsedConversation:
    """Convert an Open WebUI conversation (decoded JSON); `now` (Unix seconds) replaces a missing creation time."""
    chat = mapping(_chat(value))
    history = mapping(chat.get("history"))
    created = seconds(value.get("created_at")) or seconds(chat.get("timestamp")) or now
    messages = [
        ParsedMessage(
            key,
            identifier(each.get("parentId")),
            _ROLES[each["role"]],
            _content(each.get("content")),
            seconds(each.get("timestamp")),
            ModelSettings(text(each.get("model"))),
        )
        for key, each in ((key, mapping(each)) for key, each in mapping(history.get("messages")).items())
        if text(each.get("role")) in _ROLES
    ]
    return ParsedConversation(
        title=text(value.get("title")) or text(chat.get("title")),
        created=created,
        updated=seconds(value.get("updated_at")) or created,
        messages=messages,
        leaf=identifier(history.get("currentId")),
        archived=value.get("archived") is True,
        pinned=value.get("pinned") is True,
        settings=ModelSettings(system=text(chat.get("system"))),
    )


def _chat(value: Mapping[str, Any]) -> Any:
    return value.get("chat", value)


def _content(content: Any) -> str:
    """Return the text of a message's content, which is a string or a list of parts."""
    if isinstance(content, list):
        return "\n\n".join(text(mapping(part).get("text")) for part in content)
    return text(content)
