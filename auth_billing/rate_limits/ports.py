"""Interfaces of the stores of configured rate limits and of shared buckets, which `store/` implements.

Each method raises `StoreUnavailable` when the store does not answer in time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from auth_billing.rate_limits.limits import BucketRate, Dimension, Limits


class LimitStore(Protocol):
    """Store of configured rate limits, by subject id."""

    async def find(self, subjects: Sequence[str]) -> dict[str, Limits]:
        """Return the configured rate limits of the subjects with these ids, by id; subjects without any are missing."""
        ...

    async def change(self, subject: str, changes: Limits) -> Limits:
        """Set those of a subject's rate limits that are not `None` in `changes`, durably; return all its limits."""
        ...

    async def remove(self, subject: str) -> None:
        """Remove all configured rate limits of the subject with this id, durably."""
        ...


@dataclass(frozen=True)
class UnitUpdate:
    """Change of one bucket: give `returned` units back, then take at least `minimum` and at most `wanted`.

    A negative `returned` takes units used beyond those taken before.
    """

    rate: BucketRate
    returned: int = 0
    minimum: int = 0
    wanted: int = 0


@dataclass(frozen=True)
class SlotUpdate:
    """Change of a subject's slots, of which there are `limit` in all.

    The holder uses `running` of them, even beyond a lowered limit; it needs at least `minimum` in all and requests
    `wanted`. They expire after `ttl` seconds, so that a crashed holder gives them back.
    """

    limit: int
    running: int
    minimum: int
    wanted: int
    ttl: float


@dataclass(frozen=True)
class BucketUpdate:
    """Change of one subject's buckets and slots by one process (`holder`); applied completely or not at all."""

    holder: str
    units: Mapping[Dimension, UnitUpdate]
    slots: SlotUpdate | None = None


@dataclass(frozen=True)
class UpdateResult:
    """Result of a bucket update; times are of the store's clock (seconds)."""

    now: float
    applied: bool
    full_at: Mapping[Dimension, float]
    taken: Mapping[Dimension, int] = field(default_factory=dict)
    slots: int = 0
    """Slots that the holder has now, if it requested any."""
    other_slots: int = 0
    """Slots of the other holders."""


class BucketStore(Protocol):
    """Store of rate-limit buckets and concurrency slots. Each update is atomic."""

    async def update(self, subject: str, update: BucketUpdate) -> UpdateResult:
        """Apply one update to a subject's rate-limit buckets and slots, by subject id, atomically; return the result.

        An update that can't be applied writes nothing; the result says so.
        """
        ...
