"""Defines one turn of a conversation (role and text), as the assistant's routing and rewriting read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Turn:
    """A turn of a conversation: its role and its text, without steps, tool results or images."""

    role: Literal["user", "assistant"]
    text: str
