"""How far an import is, and what came of it."""

from __future__ import annotations

from typing import Literal

from chat_ui.importing.records import SkipReason
from chat_ui.shapes.base import Shape


class SkippedConversation(Shape):
    """A conversation of a file that was not taken."""

    title: str
    reason: SkipReason
    limit: int | None
    """What it has more of than it may: messages, files, or MiB where the reason is a size."""


class Import(Shape):
    """The taking in of a file: `total` conversations, of which `done` were looked at."""

    id: str
    state: Literal["running", "done", "failed"]
    """`failed`: it has broken off. What was taken is there, and is not taken again."""
    begun: float
    total: int
    done: int
    imported: int
    known: int
    """How many were there already."""
    skipped: list[SkippedConversation]
    """The first of those that were not taken."""


class LastImport(Shape):
    """The last import of a person; `null`: there was none."""

    last: Import | None
