"""Limits and buckets in dictionaries: the twins of the stores in MongoDB; they can be made to go away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from auth_billing.rate_limits import bucket
from auth_billing.rate_limits.book import LimitBook
from auth_billing.rate_limits.circuit import Circuit
from auth_billing.rate_limits.limiter import RateLimiter
from auth_billing.rate_limits.limits import Dimension, Kind, Limits
from auth_billing.rate_limits.ports import Order, Position
from tests.fakes.accounts import Absence


class DictLimitStore:
    def __init__(self) -> None:
        self.absence = Absence()
        self.limits: dict[str, Limits] = {}

    async def find(self, subjects: Sequence[str]) -> dict[str, Limits]:
        self.absence.check()
        return {subject: self.limits[subject] for subject in subjects if subject in self.limits}

    async def change(self, subject: str, changes: Limits) -> Limits:
        self.absence.check()
        self.limits[subject] = self.limits.get(subject, Limits()).changed_by(changes)
        return self.limits[subject]


@dataclass
class _Subject:
    full_at: dict[Dimension, float] = field(default_factory=dict)
    holders: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Slots, and until when."""


class DictBucketStore:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.absence = Absence()
        self.clock = clock
        self.writes = 0
        self.subjects: dict[str, _Subject] = {}

    async def exchange(self, subject: str, order: Order) -> Position:
        self.absence.check()
        await asyncio.sleep(0)
        now, there = self.clock(), self.subjects.setdefault(subject, _Subject())
        full_at = {
            d: bucket.after(line.rate, there.full_at.get(d, 0.0), now, -line.back) for d, line in order.lines.items()
        }
        rooms = {d: bucket.room(line.rate, full_at[d], now) for d, line in order.lines.items()}
        others = sum(n for holder, (n, until) in there.holders.items() if holder != order.holder and until > now)
        slots = order.slots
        possible = all(rooms[d] >= line.need for d, line in order.lines.items() if line.need)
        if slots is not None and slots.need > slots.running:
            possible = possible and slots.limit - others >= slots.need
        if not possible:
            return Position(now, False, {d: there.full_at.get(d, 0.0) for d in order.lines}, other_slots=others)
        self.writes += 1
        taken = {d: max(0, min(line.want, rooms[d])) for d, line in order.lines.items()}
        for d, line in order.lines.items():
            there.full_at[d] = bucket.after(line.rate, full_at[d], now, taken[d])
        held = 0
        if slots is not None:
            held = max(slots.running, min(slots.want, slots.limit - others))
            there.holders[order.holder] = (held, now + slots.seconds)
        return Position(now, True, {d: there.full_at[d] for d in order.lines}, taken, held, others)


def rate_limiter(
    defaults: Mapping[Kind, Limits] | None = None, buckets: DictBucketStore | None = None, holder: str = "gateway"
) -> RateLimiter:
    """As a gateway has it."""
    circuit = Circuit(time.monotonic)
    book = LimitBook(DictLimitStore(), defaults or {}, circuit)
    return RateLimiter(buckets or DictBucketStore(), book, holder, circuit)
