"""Port of the store of usage records.

Times are Unix seconds. Each method of the port raises `StoreUnavailable` when the store does not answer in time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from typing import Protocol

from router.messages import Usage, UsageRecord


class Insertion(Enum):
    """Result of inserting a record that may exist already."""

    NEW = "new"
    REPEATED = "repeated"
    """An equal record exists: as good as new."""
    CONFLICTING = "conflicting"
    """A different record with the same identity exists; it was left unchanged."""


class UsageStore(Protocol):
    """Store of usage records, which are immutable."""

    async def add_new(self, records: Sequence[UsageRecord]) -> list[bool]:
        """Store the records that do not exist yet, durably, in one write; return for each whether it was stored by this
        call.

        Pass the others to `add`, which tells repeated from conflicting ones.

        Raises:
            RecordRefused: the store can't hold one of them; the others may have been stored.
        """
        ...

    async def add(self, record: UsageRecord) -> Insertion:
        """Store the usage of one attempt at a job, durably and once.

        Raises:
            RecordRefused: the store can't hold it.
        """
        ...

    async def of_jobs(self, jobs: Collection[str]) -> Sequence[tuple[str, Usage]]:
        """Return the usage of each attempt at these jobs, with the job's id."""
        ...
