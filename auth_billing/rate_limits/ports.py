"""Where limits and their buckets are kept: the ports. Knows no MongoDB: `store/` implements them.

Each method raises `StoreUnavailable` when the store does not answer in time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from auth_billing.rate_limits.limits import Dimension, Limits, Rate


class LimitStore(Protocol):
    """Where limits are that somebody has set, by the id of their subject."""

    async def find(self, subjects: Sequence[str]) -> dict[str, Limits]:
        """What is set of these subjects; those of which nothing is are missing."""
        ...

    async def change(self, subject: str, changes: Limits) -> Limits:
        """Set what `changes` says, durably, and leave the rest; all that is set then."""
        ...


@dataclass(frozen=True)
class Line:
    """What is wanted of one bucket: `back` units are given back (below 0: more was used than had been taken), then at
    least `need` are taken, and at most `want`.
    """

    rate: Rate
    back: int = 0
    need: int = 0
    want: int = 0


@dataclass(frozen=True)
class Slots:
    """What is wanted of the slots for concurrent requests, of which a subject has `limit`.

    The holder uses `running` of them, whatever the limit is by now; it needs `need` in all and wants `want`. They are
    its own for `seconds`, then anybody's: a holder that has died gives them back that way.
    """

    limit: int
    running: int
    need: int
    want: int
    seconds: float


@dataclass(frozen=True)
class Order:
    """What one holder wants of one subject's buckets and slots: all of it, or nothing happens."""

    holder: str
    lines: Mapping[Dimension, Line]
    slots: Slots | None = None


@dataclass(frozen=True)
class Position:
    """How things stand after an order, by the store's clock."""

    now: float
    fulfilled: bool
    full_at: Mapping[Dimension, float]
    taken: Mapping[Dimension, int] = field(default_factory=dict)
    slots: int = 0
    """That the holder has now, if it asked for some."""
    other_slots: int = 0
    """That other holders have."""


class BucketStore(Protocol):
    """Where buckets and slots are. Each order is carried out at once, as if it were alone."""

    async def exchange(self, subject: str, order: Order) -> Position:
        """Carry out an order. One that can't be fulfilled changes, and writes, nothing."""
        ...
