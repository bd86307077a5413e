"""Usage reports: records and store interface for requests, tokens and costs of settled jobs, by time and group.

A job counts at the time of its settlement (`final.at`), once; a job that was never queued does not count. The ledger's
entries are made of the same jobs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from itertools import chain
from typing import Protocol

from auth_billing.money.billing_records import JobRecord


class UsageKind(StrEnum):
    """What a job's request was for."""

    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"
    IMAGES = "images"


JOB_PREFIXES = {UsageKind.EMBEDDINGS: "embd-", UsageKind.IMAGES: "img-"}
"""Prefixes of the ids of jobs by kind; all other jobs are completions."""


class Dimension(StrEnum):
    """Fields of a job that usage is grouped and filtered by."""

    PROJECT = "project"
    USER = "user"
    KEY = "key"
    MODEL = "model"
    """The job's model for its answer, the part's model or tool for each part of its steps."""
    SERVICE_CLASS = "service_class"


@dataclass(frozen=True)
class UsageFilter:
    """Selects jobs settled from `since` until before `until` (Unix seconds).

    `ids` has the ids to select, by dimension; a missing dimension selects all.
    """

    organisation: str
    since: int
    until: int
    ids: Mapping[Dimension, Sequence[str]] = field(default_factory=dict)
    kind: UsageKind | None = None


@dataclass(frozen=True)
class UsageRow:
    """The usage of one bucket and group. Costs are nano-USD.

    `start` is the bucket's begin, a multiple of its width. `cost` is what was charged: the sum of the other four costs
    unless a job used more than its hold. Usage of a job's steps counts under the models of its parts, and not as a
    request.
    """

    start: int
    group: Mapping[Dimension, str]
    requests: int
    input_tokens: int
    cached_tokens: int
    """The part of the input tokens that came from the prefix cache."""
    output_tokens: int
    cost: int
    input_cost: int
    """The cost of the input tokens that were not cached."""
    cached_cost: int
    output_cost: int
    units: int = 0
    """Number of things that are priced each, such as images and tool calls."""
    unit_cost: int = 0


_COUNTED = [each.name for each in fields(UsageRow) if each.name not in ("start", "group")]


class UsageReports(Protocol):
    """Queries over settled jobs. Each method raises `StoreUnavailable` if the store does not answer in time."""

    async def rows(self, selection: UsageFilter, width: int, by: Sequence[Dimension], limit: int) -> list[UsageRow]:
        """Return the usage of the jobs that `selection` matches, by bucket of `width` seconds and by group.

        One row per bucket and per group of values of the dimensions `by`, at most `limit` rows, sorted by bucket and
        group.
        """
        ...

    async def count(self, selection: UsageFilter, limit: int) -> int:
        """Return the number of jobs that `selection` matches, or `limit` if there are more."""
        ...

    def jobs(self, selection: UsageFilter) -> AsyncIterator[JobRecord]:
        """Iterate over the records of the settled jobs that `selection` matches, in the order of their settlement."""
        ...


def merge_rows(parts: Sequence[Sequence[UsageRow]]) -> list[UsageRow]:
    """Add up usage rows of several periods that have the same bucket and group; return all rows sorted by these."""
    found: dict[tuple[int, tuple[str, ...]], UsageRow] = {}
    for row in chain.from_iterable(parts):
        key = row.start, tuple(row.group.values())
        found[key] = _sum(found[key], row) if key in found else row
    return [found[key] for key in sorted(found)]


def _sum(one: UsageRow, other: UsageRow) -> UsageRow:
    return UsageRow(one.start, one.group, **{name: getattr(one, name) + getattr(other, name) for name in _COUNTED})
