"""Defines the interface of the store of workers' usage records, which the MongoDB store implements.

Times are Unix seconds. Each method raises `StoreUnavailable` if the store does not answer in time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from typing import Protocol

from router.messages import UsageRecord
from router.usage_arithmetic import JobUsage


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
        """Store those of the usage records that are not stored yet, durably, in one write.

        Return for each record whether this call stored it. Pass the others to `add`, which tells repeated from
        conflicting records.

        Raises:
            RecordRefused: the store can't hold one of the records; the others may be stored.
        """
        ...

    async def add(self, record: UsageRecord) -> Insertion:
        """Store a usage record durably, once per attempt; return whether it is new, repeated or conflicting.

        Raises:
            RecordRefused: the store can't hold the record.
        """
        ...

    async def of_jobs(self, jobs: Collection[str]) -> Sequence[tuple[str, JobUsage]]:
        """Return a pair of job id and usage for each attempt at these jobs that has a usage record."""
        ...
