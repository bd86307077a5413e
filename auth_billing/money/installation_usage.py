"""Usage of all organisations for the installation's operator: rows by day, model and organisation, and their query.

It is read from the hourly rollups only (`usage_rollups.py`), so it lacks the last hours, and no job is scanned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class InstallationUsageRow:
    """The settled usage of one organisation and model on one day (UTC), which begins at `start` (Unix seconds).

    `cached_tokens` are a part of `input_tokens`; `cost` is in nano-USD.
    """

    start: int
    organisation: str
    model: str
    requests: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: int


class InstallationUsage(Protocol):
    """Queries over the rollups of all organisations. Each method raises `StoreUnavailable` if the store fails."""

    async def rows(self, since: int, until: int, limit: int) -> list[InstallationUsageRow]:
        """Return the settled usage of all organisations from `since` until before `until` (Unix seconds).

        One row per day, organisation and model, sorted by these, at most `limit` rows.
        """
        ...

    async def complete_until(self) -> int | None:
        """Return the Unix time until which every organisation's usage is rolled up; `None`: none is rolled up yet."""
        ...
