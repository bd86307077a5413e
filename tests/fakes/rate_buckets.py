"""Limits and buckets in dictionaries: the twins of the stores in MongoDB; they can be made to go away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from auth_billing.rate_limits.bucket_update import SubjectState, apply_update
from auth_billing.rate_limits.limit_registry import LimitRegistry
from auth_billing.rate_limits.limiter import RateLimiter
from auth_billing.rate_limits.limits import Limits, SubjectKind
from auth_billing.rate_limits.ports import BucketUpdate, UpdateResult
from auth_billing.rate_limits.store_circuit import StoreCircuit
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
        self.limits[subject] = self.limits.get(subject, Limits()).overridden_by(changes)
        return self.limits[subject]

    async def remove(self, subject: str) -> None:
        self.absence.check()
        self.limits.pop(subject, None)


class DictBucketStore:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.absence = Absence()
        self.clock = clock
        self.writes = 0
        self.subjects: dict[str, SubjectState] = {}

    async def update(self, subject: str, update: BucketUpdate) -> UpdateResult:
        self.absence.check()
        await asyncio.sleep(0)
        state, result = apply_update(self.subjects.get(subject, SubjectState()), update, self.clock())
        if state is not None:
            self.subjects[subject] = state
            self.writes += 1
        return result


def rate_limiter(
    defaults: Mapping[SubjectKind, Limits] | None = None,
    buckets: DictBucketStore | None = None,
    holder: str = "gateway",
) -> RateLimiter:
    """As a gateway has it."""
    circuit = StoreCircuit(time.monotonic)
    book = LimitRegistry(DictLimitStore(), defaults or {}, circuit)
    return RateLimiter(buckets or DictBucketStore(), book, holder, circuit)
