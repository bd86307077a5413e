"""Defines the messages of an import's parser process: first `Opened` or `Refused`, then batches of conversations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import BinaryIO

import msgspec

from chat_ui.history.records import Conversation, Message, Owner
from chat_ui.importing.records import Skipped


@dataclass(frozen=True)
class ImportRequest:
    """Parameters of parsing. `model` answers new questions in imported conversations; `now` is in Unix seconds."""

    owner: Owner
    model: str
    now: float


@dataclass(frozen=True)
class ConversationRecords:
    """A conversation to be stored, with its search terms. `origin` is its id in an export of this chat."""

    conversation: Conversation
    messages: list[Message]
    terms: list[str]
    origin: str | None


class Opened(msgspec.Struct, frozen=True, tag=True):
    """First frame of the parser process for an export file of a known format."""

    total: int
    """Conversations in the file."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """Only frame of the parser process for a file that can't be imported; the message is for people."""

    message: str
    is_json: bool


class Batch(msgspec.Struct, frozen=True, tag=True):
    """Frame with the next conversations of an export file: records to store, and conversations that were skipped."""

    taken: list[ConversationRecords]
    skipped: list[Skipped]


Frame = Opened | Refused | Batch
ParseFile = Callable[[BinaryIO, ImportRequest], AsyncIterator[Frame]]
"""Parses a file and yields frames; close the iterator to cancel. Raises `ParserFailed`."""


class ParserFailed(Exception):
    """Base of the errors of the parser process."""


class ParserDied(ParserFailed):
    """The parser process exited before the end of the file, or sent an invalid message."""


class FileTooCostly(ParserFailed):
    """The parser process exceeded a limit of memory, time or output; the message says which."""


class ParserUnavailable(ParserFailed):
    """This machine can't confine a parser process."""
