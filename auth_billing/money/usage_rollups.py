"""Aggregates usage by hour (rollups), so that usage reports read one row per past hour and group instead of every job.

A job is read once for its rollup, some minutes after the hour in which it was settled. Hours are rolled up in order,
and the organisation's `RollupSpan` says how far that has come: a report takes hours within the span from rollups and
the rest from jobs, so each job counts once. Any number of processes may do this at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from auth_billing.people.organisation_records import Organisation

HOUR = 3600
SETTLEMENT_DELAY = 600.0
"""Seconds after which no job is settled with an earlier time any more: such a write was given up long before, and the
clocks of billing processes differ by less."""
MAX_BACKFILL = 31 * 24 * HOUR
"""Seconds before now where the rollups of an organisation without any begin: the longest report by day."""


@dataclass(frozen=True)
class RollupSpan:
    """The hours that are rolled up: from `since` until before `until` (Unix seconds, whole hours)."""

    since: int
    until: int

    def within(self, since: int, until: int) -> RollupSpan:
        """Return the rolled-up whole hours between `since` and `until` (Unix seconds); empty if there are none."""
        return RollupSpan(max(self.since, -(-since // HOUR) * HOUR), min(self.until, until // HOUR * HOUR))


class RollupStore(Protocol):
    """Store of hourly rollups. Each method raises `StoreUnavailable` if the store does not answer in time."""

    async def organisations(self) -> Sequence[Organisation]:
        """Return all organisations of the installation, whose usage is rolled up."""
        ...

    async def is_settling(self, before: float) -> bool:
        """Return whether a settlement begun before `before` (Unix seconds) is unfinished, so usage may be missing."""
        ...

    async def span(self, organisation: str) -> RollupSpan | None:
        """Return the hours of an organisation that are rolled up; `None` if `start` was never called for it."""
        ...

    async def start(self, organisation: str, at: int) -> None:
        """Set the first hour to roll up for an organisation (its begin in Unix seconds), unless one is set."""
        ...

    async def roll_up(self, organisation: str, hour: int) -> None:
        """Aggregate and store the usage of an organisation's jobs settled in the hour from `hour` (Unix seconds).

        Extends the rolled-up span if it ends there. A repetition has no effect.
        """
        ...


class UsageRollups:
    """Periodic task that rolls up the usage of past hours."""

    def __init__(self, store: RollupStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def roll_up_all(self) -> None:
        """Store the missing rollups of all past hours of all organisations.

        Does nothing while a settlement of these hours is unfinished. The billing process calls this periodically.

        Raises:
            StoreUnavailable: some hours are missing; repeat the call.
        """
        until = int((self._clock() - SETTLEMENT_DELAY) // HOUR) * HOUR
        if await self._store.is_settling(until):
            return  # it will finish soon, or the sweeper finishes it; the next run rolls up
        for organisation in await self._store.organisations():
            span = await self._store.span(organisation.id)
            if span is None:
                first = min(until, max(int(organisation.created // HOUR) * HOUR, until - MAX_BACKFILL))
                await self._store.start(organisation.id, first)
                span = await self._store.span(organisation.id) or RollupSpan(first, first)
            for hour in range(span.until, until, HOUR):
                await self._store.roll_up(organisation.id, hour)
