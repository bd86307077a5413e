"""In-memory billing without prices, which records holds, voids and checkpoints and can refuse or be unavailable."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from auth_billing.access.principal import Principal
from auth_billing.errors import AccountError, StoreUnavailable
from auth_billing.money.billing import Billing
from auth_billing.money.holds import HoldRequest
from router.usage_arithmetic import JobUsage


class FakeBilling(Billing):
    def __init__(self) -> None:
        self.held: dict[str, HoldRequest] = {}
        """Every hold that was taken, by job id."""
        self.payers: dict[str, Principal] = {}
        self.voided: list[str] = []
        self.checkpoints: list[dict[str, JobUsage]] = []
        self.renewed: list[str] = []
        self.refusal: AccountError | None = None
        """The error that `reserve` raises."""
        self.lost_answers = 0
        """How many more calls of `reserve` hold and then raise, as if the answer was lost."""
        self.away = False
        self.slow: asyncio.Event | None = None
        """If set, `reserve` waits for this event."""
        self.unwritten: set[str] = set()
        """Jobs whose documents are not written; those of all others are written by `reserve`."""
        self.asked = 0

    async def reserve(self, principal: Principal, works: Sequence[HoldRequest]) -> None:
        self.asked += 1
        if self.slow is not None:
            await self.slow.wait()
        self._answer()
        if self.refusal is not None:
            raise self.refusal
        self.held.update((work.job, work) for work in works)
        self.payers.update((work.job, principal) for work in works)
        if self.lost_answers:
            self.lost_answers -= 1
            raise StoreUnavailable("no answer: it may be held")

    async def void(self, jobs: Sequence[str]) -> None:
        self._answer()
        self.voided.extend(jobs)

    def is_written(self, job: str) -> bool:
        return job not in self.unwritten

    async def flush_jobs(self, jobs: Collection[str]) -> None:
        """Wait until `unwritten` has none of them."""
        while self.unwritten.intersection(jobs):
            await asyncio.sleep(0.001)

    async def checkpoint(self, usage: Mapping[str, JobUsage]) -> None:
        self._answer()
        self.checkpoints.append(dict(usage))

    async def record_heartbeat(self, gateway: str) -> None:
        self._answer()
        self.renewed.append(gateway)

    async def release_leases(self) -> None:
        """Everything is held from what there is."""

    def _answer(self) -> None:
        if self.away:
            raise StoreUnavailable("away")
