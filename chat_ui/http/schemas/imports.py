"""Response models of the progress and result of importing conversations."""

from __future__ import annotations

from typing import Literal

from chat_ui.http.schemas.base import Schema
from chat_ui.importing.records import SkipReason


class SkippedConversation(Schema):
    """A conversation of a file that was not imported."""

    title: str
    reason: SkipReason
    limit: int | None
    """The limit that was exceeded: messages, files, or MiB for a size."""


class Import(Schema):
    """The import of a file with `total` conversations, of which `done` were processed."""

    id: str
    state: Literal["running", "done", "failed"]
    """`failed`: the import ended early; imported conversations stay, and are not imported again."""
    begun: float
    total: int
    done: int
    imported: int
    known: int
    """Conversations that existed already."""
    skipped: list[SkippedConversation]
    """The first conversations that were skipped."""


class LastImport(Schema):
    """The last import of a person; `null` if there is none."""

    last: Import | None
