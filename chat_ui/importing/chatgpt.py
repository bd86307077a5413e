"""Parses `conversations.json` of ChatGPT's "Export data": a list of message trees.

A conversation is `{title, create_time, update_time, is_archived, current_node, mapping: {ID: {parent, message}}}`, a
message `{author: {role}, create_time, content: {content_type, parts | text}, recipient, metadata}`. There is no
specification, and fields vary between versions, so every field is optional. Hidden messages (system prompts, tool calls
and their results) are left out; their children become children of the nearest visible ancestor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chat_ui.history.records import ModelSettings, Role
from chat_ui.importing.parsed_conversation import ParsedConversation, ParsedMessage, identifier, mapping, seconds, text

MAX_HIDDEN = 200
"""Hidden ancestors that are skipped in a search for a visible one; beyond them a message becomes a root."""
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT}


def matches(value: Mapping[str, Any]) -> bool:
    """Return whether a decoded JSON object looks like a conversation of a ChatGPT export."""
    return isinstance(value.get("mapping"), dict)


def parse(value: Mapping[str, Any], now: float) -> ParsedConversation:
    """Convert a ChatGPT conversation (decoded JSON); `now` (Unix seconds) replaces a missing creation time."""
    nodes = mapping(value["mapping"])
    created = seconds(value.get("create_time")) or now
    visible = {key: message for key, node in nodes.items() if (message := _message(key, mapping(node))) is not None}
    messages = []
    for key, message in visible.items():
        parent = _nearest(nodes, visible, identifier(mapping(nodes[key]).get("parent")))
        messages.append(ParsedMessage(key, parent, message.role, message.text, message.created, message.settings))
    return ParsedConversation(
        title=text(value.get("title")),
        created=created,
        updated=seconds(value.get("update_time")) or created,
        messages=messages,
        leaf=_nearest(nodes, visible, identifier(value.get("current_node"))),
        archived=value.get("is_archived") is True,
    )


def _message(key: str, node: Mapping[str, Any]) -> ParsedMessage | None:
    """Return the visible message of a node; `None` if it has none."""
    message = mapping(node.get("message"))
    role = _ROLES.get(text(mapping(message.get("author")).get("role")))
    metadata = mapping(message.get("metadata"))
    hidden = metadata.get("is_visually_hidden_from_conversation") is True
    if role is None or hidden or message.get("recipient", "all") not in ("all", None):
        return None
    content = _content(mapping(message.get("content")))
    if not content.strip():
        return None
    return ParsedMessage(
        key, None, role, content, seconds(message.get("create_time")), ModelSettings(text(metadata.get("model_slug")))
    )


def _content(content: Mapping[str, Any]) -> str:
    kind = content.get("content_type", "text")
    if kind not in ("text", "multimodal_text"):
        return ""  # executed code, reasoning, browsed pages
    parts = content.get("parts")
    if not isinstance(parts, list):
        return text(content.get("text"))
    return "\n\n".join(
        part if isinstance(part, str) else _part_text(mapping(part)) for part in parts if part not in ("", None)
    )


def _part_text(part: Mapping[str, Any]) -> str:
    """Return the text of a part, or a placeholder for media, which the file does not contain."""
    return text(part.get("text")) or f"[{text(part.get('content_type')) or 'attachment'}]"


def _nearest(nodes: Mapping[str, Any], visible: Mapping[str, ParsedMessage], key: str | None) -> str | None:
    """Return the id of a visible node: this one or its nearest visible ancestor."""
    for _ in range(MAX_HIDDEN):
        if key is None or key in visible:
            break
        key = identifier(mapping(nodes.get(key)).get("parent"))
    return key if key in visible else None
