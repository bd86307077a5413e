"""Ports of the stores of limits and buckets, implemented in `store/`.

Each method raises `StoreUnavailable` when the store does not answer in time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from auth_billing.rate_limits.limits import Dimension, Limits, Rate


class LimitStore(Protocol):
    """Store of configured limits, by subject id."""

    async def find(self, subjects: Sequence[str]) -> dict[str, Limits]:
        """Return the configured limits of these subjects; subjects without any are missing."""
        ...

    async def change(self, subject: str, changes: Limits) -> Limits:
        """Set the limits in `changes` durably, leave the others, and return all that are set."""
        ...


@dataclass(frozen=True)
class Line:
    """Request to one bucket: give back `back` units (negative: take units that were used beyond those taken before),
    then take at least `need` and at most `want`.
    """

    rate: Rate
    back: int = 0
    need: int = 0
    want: int = 0


@dataclass(frozen=True)
class Slots:
    """Request for slots, of which a subject has `limit` in all.

    The holder uses `running` of them, even beyond a lowered limit; it needs `need` in all and wants `want`. They expire
    after `seconds`, so that a crashed holder gives them back.
    """

    limit: int
    running: int
    need: int
    want: int
    seconds: float


@dataclass(frozen=True)
class Order:
    """Request of one holder to one subject's buckets and slots; applied completely or not at all."""

    holder: str
    lines: Mapping[Dimension, Line]
    slots: Slots | None = None


@dataclass(frozen=True)
class Position:
    """Result of an order, with times of the store's clock."""

    now: float
    fulfilled: bool
    full_at: Mapping[Dimension, float]
    taken: Mapping[Dimension, int] = field(default_factory=dict)
    slots: int = 0
    """Slots that the holder has now, if it requested any."""
    other_slots: int = 0
    """Slots of the other holders."""


class BucketStore(Protocol):
    """Store of buckets and slots. Each order is atomic."""

    async def exchange(self, subject: str, order: Order) -> Position:
        """Apply an order. One that can't be fulfilled changes and writes nothing."""
        ...
