"""Limits and buckets in dictionaries: the twins of the stores in MongoDB; they can be made to go away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from auth_billing.rate_limits.bucket_update import State, carry_out
from auth_billing.rate_limits.limit_registry import LimitBook
from auth_billing.rate_limits.limiter import RateLimiter
from auth_billing.rate_limits.limits import Kind, Limits
from auth_billing.rate_limits.ports import Order, Position
from auth_billing.rate_limits.store_circuit import Circuit
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


class DictBucketStore:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.absence = Absence()
        self.clock = clock
        self.writes = 0
        self.subjects: dict[str, State] = {}

    async def exchange(self, subject: str, order: Order) -> Position:
        self.absence.check()
        await asyncio.sleep(0)
        state, position = carry_out(self.subjects.get(subject, State()), order, self.clock())
        if state is not None:
            self.subjects[subject] = state
            self.writes += 1
        return position


def rate_limiter(
    defaults: Mapping[Kind, Limits] | None = None, buckets: DictBucketStore | None = None, holder: str = "gateway"
) -> RateLimiter:
    """As a gateway has it."""
    circuit = Circuit(time.monotonic)
    book = LimitBook(DictLimitStore(), defaults or {}, circuit)
    return RateLimiter(buckets or DictBucketStore(), book, holder, circuit)
