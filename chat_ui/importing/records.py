"""Imports as they are stored, the last one of each person, and the port to where that is. Knows no MongoDB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from chat_ui.history.records import Owner


class ImportState(StrEnum):
    """Where an import is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    """Not all was looked at. What was taken stays, and is not taken again."""


class SkipReason(StrEnum):
    """Why a conversation of a file was not taken."""

    UNKNOWN_KIND = "unknown_kind"
    """It is no conversation of a program that we know."""
    NO_TEXT = "no_text"
    TOO_MANY_MESSAGES = "too_many_messages"
    TOO_LARGE = "too_large"
    TOO_MANY_FILES = "too_many_files"
    """With one question."""
    FILES_TOO_LARGE = "files_too_large"
    """Those of one question together."""
    OTHER = "other"
    """One that this version of the program does not know: another one has stored it."""


@dataclass(frozen=True)
class Skipped:
    """A conversation of a file that was not taken."""

    title: str
    reason: SkipReason
    limit: int | None = None
    """What it has more of than it may: messages, files, or MiB where the reason is a size; `None`: it is no limit."""


@dataclass(frozen=True)
class Import:
    """The taking in of one file."""

    id: str
    begun: float
    total: int
    """Conversations in the file."""
    state: ImportState = ImportState.RUNNING
    done: int = 0
    """Conversations that were looked at."""
    imported: int = 0
    known: int = 0
    """Conversations that were there already."""
    skipped: Sequence[Skipped] = ()
    """The first of those that were not taken."""
    writing: Sequence[str] = ()
    """Conversations of which there may be messages only, if it breaks off now."""
    until: float = 0.0
    """Its process counts as alive until then; 0: nothing is left to do."""


class ImportStore(Protocol):
    """Where imports are: one place for each owner, taken by one process at a time.

    Each method raises `StoreUnavailable` when the store does not answer in time.
    """

    async def find(self, owner: Owner) -> Import | None:
        """The owner's last one."""
        ...

    async def begin(self, owner: Owner, started: Import, before: Import | None, now: float) -> bool:
        """Put `started` where `before` was; false if that is not there (any more) or somebody alive works at it."""
        ...

    async def keep(self, owner: Owner, at: Import) -> bool:
        """Say how far it is; false if another import is in its place."""
        ...

    async def abandoned(self, now: float, limit: int) -> list[tuple[Owner, Import]]:
        """Those that nobody alive works at, though something is left to do."""
        ...
