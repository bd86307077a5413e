"""What was used and what it cost, added up from settled jobs, which is what the ledger is made of: each counts once.

A job counts when it was settled (`final.at`); one that was never queued does not count. Knows no HTTP and no MongoDB.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from itertools import chain
from typing import Protocol

from auth_billing.money.books import JobRecord

EMBEDDING_JOBS = "embd-"
"""How the ids of embedding jobs begin; all others generate text."""


class Kind(StrEnum):
    """What was asked for."""

    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"


class Dimension(StrEnum):
    """What usage is told apart by; the fields of a job."""

    PROJECT = "project"
    USER = "user"
    KEY = "key"
    MODEL = "model"
    SERVICE_CLASS = "service_class"


@dataclass(frozen=True)
class UsageFilter:
    """Which jobs: settled from `since` until before `until` (Unix seconds), of any of the ids given for a dimension."""

    organisation: str
    since: int
    until: int
    only: Mapping[Dimension, Sequence[str]] = field(default_factory=dict)
    kind: Kind | None = None


@dataclass(frozen=True)
class UsageRow:
    """What the jobs of one bucket and group used together. Costs are nano-USD.

    `start` is the bucket's, a multiple of its width. `cost` is what was paid: the sum of the other three costs unless
    a job had used more than was held for it.
    """

    start: int
    group: Mapping[Dimension, str]
    requests: int
    input_tokens: int
    cached_tokens: int
    """Part of the input."""
    output_tokens: int
    cost: int
    input_cost: int
    """Of the input that was not cached."""
    cached_cost: int
    output_cost: int


_COUNTED = [each.name for each in fields(UsageRow) if each.name not in ("start", "group")]


class UsageReports(Protocol):
    """Where settled jobs are added up. Each method raises `StoreUnavailable` when the store does not answer in time."""

    async def rows(self, wanted: UsageFilter, width: int, by: Sequence[Dimension], limit: int) -> list[UsageRow]:
        """One row for each bucket of `width` seconds and each group in it, in order, `limit` of them at most."""
        ...

    async def count(self, wanted: UsageFilter, limit: int) -> int:
        """How many jobs there are, counted up to `limit`."""
        ...

    def jobs(self, wanted: UsageFilter) -> AsyncIterator[JobRecord]:
        """The jobs themselves, in the order in which they were settled."""
        ...


def added(parts: Sequence[Sequence[UsageRow]]) -> list[UsageRow]:
    """Rows of several parts of a time, those of the same bucket and group as one, in order."""
    found: dict[tuple[int, tuple[str, ...]], UsageRow] = {}
    for row in chain.from_iterable(parts):
        key = row.start, tuple(row.group.values())
        found[key] = _sum(found[key], row) if key in found else row
    return [found[key] for key in sorted(found)]


def _sum(one: UsageRow, other: UsageRow) -> UsageRow:
    return UsageRow(one.start, one.group, **{name: getattr(one, name) + getattr(other, name) for name in _COUNTED})
