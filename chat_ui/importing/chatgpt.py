"""`conversations.json` of ChatGPT's "Export data": a list of trees.

A conversation is `{title, create_time, update_time, is_archived, current_node, mapping: {ID: {parent, message}}}`, a
message `{author: {role}, create_time, content: {content_type, parts | text}, recipient, metadata}`. There is no
specification; fields come and go, so whatever is missing is done without. What was hidden there (system prompts, calls
of tools and their results) is left out, and what followed it follows what it followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chat_ui.history.records import ModelSettings, Role
from chat_ui.importing.brought import Brought, BroughtMessage, identity, mapping, seconds, text

MOST_HIDDEN = 200
"""Nodes in a row that show nothing; what follows more of them begins a branch of its own."""
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT}


def is_ours(value: Mapping[str, Any]) -> bool:
    """Whether it may be a conversation of this kind."""
    return isinstance(value.get("mapping"), dict)


def read(value: Mapping[str, Any], now: float) -> Brought:
    """One conversation."""
    nodes = mapping(value["mapping"])
    created = seconds(value.get("create_time")) or now
    said = {key: message for key, node in nodes.items() if (message := _message(key, mapping(node))) is not None}
    messages = []
    for key, message in said.items():
        parent = _nearest(nodes, said, identity(mapping(nodes[key]).get("parent")))
        messages.append(BroughtMessage(key, parent, message.role, message.text, message.created, message.settings))
    return Brought(
        title=text(value.get("title")),
        created=created,
        updated=seconds(value.get("update_time")) or created,
        messages=messages,
        leaf=_nearest(nodes, said, identity(value.get("current_node"))),
        archived=value.get("is_archived") is True,
    )


def _message(key: str, node: Mapping[str, Any]) -> BroughtMessage | None:
    """What a node shows; `None`: nothing."""
    message = mapping(node.get("message"))
    role = _ROLES.get(text(mapping(message.get("author")).get("role")))
    metadata = mapping(message.get("metadata"))
    hidden = metadata.get("is_visually_hidden_from_conversation") is True
    if role is None or hidden or message.get("recipient", "all") not in ("all", None):
        return None
    said = _content(mapping(message.get("content")))
    if not said.strip():
        return None
    return BroughtMessage(
        key, None, role, said, seconds(message.get("create_time")), ModelSettings(text(metadata.get("model_slug")))
    )


def _content(content: Mapping[str, Any]) -> str:
    kind = content.get("content_type", "text")
    if kind not in ("text", "multimodal_text"):
        return ""  # code that was run, thoughts, pages that were read
    parts = content.get("parts")
    if not isinstance(parts, list):
        return text(content.get("text"))
    return "\n\n".join(
        part if isinstance(part, str) else _of_part(mapping(part)) for part in parts if part not in ("", None)
    )


def _of_part(part: Mapping[str, Any]) -> str:
    """An image or a recording, which the file does not hold; or what was said."""
    return text(part.get("text")) or f"[{text(part.get('content_type')) or 'attachment'}]"


def _nearest(nodes: Mapping[str, Any], said: Mapping[str, BroughtMessage], key: str | None) -> str | None:
    """A node, or the first one above it that shows something."""
    for _ in range(MOST_HIDDEN):
        if key is None or key in said:
            break
        key = identity(mapping(nodes.get(key)).get("parent"))
    return key if key in said else None
