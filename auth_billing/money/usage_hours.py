"""Adds up the hours that are over, so that a report on a month reads its hours and not each of its jobs.

A job is read once for this, some minutes after the hour in which it was settled. Hours are added up one after the
other, and how far that has come is the organisation's `Span`: a report takes what is within it from the sums, and the
rest from jobs, so each job counts once, whenever the report is made. Any number of processes may do this at the same
time. Knows no MongoDB.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from auth_billing.people.organisation_records import Organisation

HOUR = 3600
LATEST_SECONDS = 600.0
"""No job is settled as of a time that lies further back: a write that took so long was given up long before, and the
clocks of billing processes are not so far apart."""
KEPT_BACK = 31 * 24 * HOUR
"""Of an organisation that is older than its sums, only so much is added up: the longest report on days."""


@dataclass(frozen=True)
class Span:
    """All hours from `since` until before `until` are added up (Unix seconds, on the hour)."""

    since: int
    until: int

    def within(self, since: int, until: int) -> Span:
        """Whole hours of a time that are added up; nothing if `since` is not before `until`."""
        return Span(max(self.since, -(-since // HOUR) * HOUR), min(self.until, until // HOUR * HOUR))


class HourStore(Protocol):
    """Where the sums are. Each method raises `StoreUnavailable`."""

    async def organisations(self) -> Sequence[Organisation]:
        """All of them."""
        ...

    async def is_settling(self, before: float) -> bool:
        """Whether the settlement of a job began before that time and is not finished."""
        ...

    async def span(self, organisation: str) -> Span | None:
        """What is added up; `None`: nobody has begun."""
        ...

    async def begin(self, organisation: str, at: int) -> None:
        """The first hour to be added up, unless somebody has said so before."""
        ...

    async def add_up(self, organisation: str, hour: int) -> None:
        """Store the sums of the hour that begins at `hour`, and let the span, if it ends there, end an hour later."""
        ...


class UsageHours:
    """The chore."""

    def __init__(self, store: HourStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def add_up_all(self) -> None:
        """Add up what is over, of all organisations.

        Raises:
            StoreUnavailable: to be done again; what is done is done.
        """
        over = int((self._clock() - LATEST_SECONDS) // HOUR) * HOUR
        if await self._store.is_settling(over):
            return  # soon they are not, or somebody looks after them
        for organisation in await self._store.organisations():
            span = await self._store.span(organisation.id)
            if span is None:
                first = min(over, max(int(organisation.created // HOUR) * HOUR, over - KEPT_BACK))
                await self._store.begin(organisation.id, first)
                span = await self._store.span(organisation.id) or Span(first, first)
            for hour in range(span.until, over, HOUR):
                await self._store.add_up(organisation.id, hour)
