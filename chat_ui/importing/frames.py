"""What a reader of a file says, one frame after the other: first `Opened` or `Refused`, then batches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import msgspec

from chat_ui.history.records import Conversation, Message, Owner
from chat_ui.importing.records import Skipped


@dataclass(frozen=True)
class Order:
    """For whom a file is read. `model`: that its conversations go on with; `now`: Unix seconds."""

    owner: Owner
    model: str
    now: float


@dataclass(frozen=True)
class Taken:
    """A conversation as it is to be stored. `origin`: its id in a file of ours."""

    conversation: Conversation
    messages: list[Message]
    terms: list[str]
    origin: str | None


class Opened(msgspec.Struct, frozen=True, tag=True):
    """The file is one that we know."""

    total: int
    """Conversations in it."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """It is not; the message is for people."""

    message: str
    is_json: bool


class Batch(msgspec.Struct, frozen=True, tag=True):
    """Some of its conversations."""

    taken: list[Taken]
    skipped: list[Skipped]


Frame = Opened | Refused | Batch
Read = Callable[[bytes, Order], AsyncIterator[Frame]]
"""Reads a file; the iterator is closed when nobody wants the rest. Raises `ReaderDied`."""


class ReaderDied(Exception):
    """The reader has ended before the file has."""
