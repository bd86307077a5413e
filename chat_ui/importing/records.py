"""Defines the record of a person's last conversation import (one for each person), and its store's interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from chat_ui.history.records import Owner


class ImportState(StrEnum):
    """The state of an import."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    """The import ended early. Imported conversations stay, and are not imported again."""


class SkipReason(StrEnum):
    """Why a conversation of a file was not imported."""

    UNKNOWN_KIND = "unknown_kind"
    """The format is unknown."""
    NO_TEXT = "no_text"
    TOO_MANY_MESSAGES = "too_many_messages"
    TOO_LARGE = "too_large"
    TOO_MANY_FILES = "too_many_files"
    """One question has too many files."""
    FILES_TOO_LARGE = "files_too_large"
    """The files of one question are too large together."""
    STORAGE_FULL = "storage_full"
    """It does not fit into the bytes that the person may store."""
    OTHER = "other"
    """A reason that another version stored and this version does not define."""


@dataclass(frozen=True)
class Skipped:
    """A conversation of a file that was not imported."""

    title: str
    reason: SkipReason
    limit: int | None = None
    """The limit that was exceeded: messages, files, or MiB for a size; `None`: the reason is no limit."""


@dataclass(frozen=True)
class Import:
    """The import of one file, and its progress."""

    id: str
    begun: float
    total: int
    """Conversations in the file."""
    state: ImportState = ImportState.RUNNING
    done: int = 0
    """Conversations that were processed."""
    imported: int = 0
    known: int = 0
    """Conversations that existed already."""
    skipped: Sequence[Skipped] = ()
    """The first conversations that were skipped."""
    writing: Sequence[str] = ()
    """Ids of conversations whose messages may be stored without the conversation itself, if the process dies now."""
    until: float = 0.0
    """End of the lease of the process that runs the import, in Unix seconds; 0: the import has ended."""


class ImportStore(Protocol):
    """Store of conversation imports: one record per owner, leased to one process at a time.

    Each method raises `StoreUnavailable` when the store does not answer in time.
    """

    async def find(self, owner: Owner) -> Import | None:
        """Return the record of the owner's last import, running or ended; `None` if there is none."""
        ...

    async def begin(self, owner: Owner, started: Import, before: Import | None, now: float) -> bool:
        """Store a new import, `started`, in place of the owner's last one, `before`; return whether it was stored.

        It is not stored if `before` was replaced or is still leased at `now` (Unix seconds).
        """
        ...

    async def renew(self, owner: Owner, record: Import) -> bool:
        """Store the running import's progress and lease end; return false, and store nothing, if it was replaced."""
        ...

    async def abandoned(self, now: float, limit: int) -> list[tuple[Owner, Import]]:
        """Return at most `limit` unfinished imports, with owner, whose lease ended before `now` (Unix seconds)."""
        ...
