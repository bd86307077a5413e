"""Our own JSON (`exporting/texts.py`). What answers cost and used is not taken: it was paid somewhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chat_ui.history.records import Role
from chat_ui.importing.brought import Brought, BroughtMessage, identity, mapping, seconds, text

_ROLES = {role.value: role for role in Role}


def is_ours(value: Mapping[str, Any]) -> bool:
    """Whether it may be a conversation of this kind."""
    return isinstance(value.get("messages"), list) and "leaf" in value


def read(value: Mapping[str, Any], now: float) -> Brought:
    """One conversation."""
    created = seconds(value.get("created")) or now
    messages = [
        BroughtMessage(
            key,
            identity(each.get("parent")),
            _ROLES[each["role"]],
            text(each.get("text")),
            seconds(each.get("created")),
            text(mapping(each.get("settings")).get("model")),
        )
        for each in map(mapping, value["messages"])
        if (key := identity(each.get("id"))) is not None and text(each.get("role")) in _ROLES
    ]
    return Brought(
        title=text(value.get("title")),
        created=created,
        updated=seconds(value.get("updated")) or created,
        messages=messages,
        leaf=identity(value.get("leaf")),
        archived=value.get("archived") is True,
        pinned=value.get("pinned") is True,
        system=text(mapping(value.get("settings")).get("system")),
    )
