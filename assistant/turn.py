"""One turn of a conversation, as routing and rewriting read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Turn:
    """A turn of a conversation: its role and its text, without steps, tool results or images."""

    role: Literal["user", "assistant"]
    text: str
