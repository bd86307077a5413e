"""Sweeper of the billing process: settles jobs whose gateway, receipt or settler was lost, releases orphaned holds.

A job without a receipt is settled to the lesser of its worker's usage record and its gateway's last checkpoint; without
a checkpoint it costs nothing. A job of a request with an idempotency key is settled to the receipt that is stored with
the answer; without a stored answer it costs nothing, because the request runs again when it is repeated. Any number of
sweepers may run: every action is idempotent, and the first process to settle a job wins.

A sweeper must not be faster than a receipt on its way. It acts only after receipts were consumed without a backlog for
`sweep_stable_period`: after an outage of store or broker, waiting receipts are settled first and gateways get the time
to send heartbeats. It compares no clocks of different machines: the silence of a gateway and the age of a hold are
measured by this process's monotonic clock, so a clock that jumps settles nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

import structlog

from auth_billing.metrics import BillingMetrics
from auth_billing.money.billing_records import (
    Balance,
    BillingStores,
    Hold,
    JobRecord,
    JobState,
    SettlementSource,
    UsageStatement,
)
from auth_billing.money.settler import Settler
from auth_billing.money.usage_store import UsageStore
from router.messages import Outcome, Usage
from router.timings import DEFAULT_TIMINGS, Timings
from router.usage_arithmetic import NO_USAGE, JobUsage, least, least_parts, most_parts

MAX_JOBS = 10_000
RETAINED_MONTHS = 3

_log = structlog.get_logger(__name__)


@dataclass(eq=False, repr=False)
class Sweeper:
    """Settles jobs whose gateway or settler died, and releases holds without a job; call `sweep` periodically.

    Args:
        stores: accounts, jobs and heartbeats.
        usage_store: the workers' usage records.
        settler: settles the jobs.
        flowing: returns whether receipts are being consumed without a backlog.
        clock: Unix seconds; used only for actions that are harmless when repeated.
        monotonic: seconds.
    """

    stores: BillingStores
    usage_store: UsageStore
    settler: Settler
    metrics: BillingMetrics
    _: KW_ONLY
    flowing: Callable[[], bool]
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    timings: Timings = DEFAULT_TIMINGS

    def __post_init__(self) -> None:
        self._last_scan = self._next_full_scan = -self.timings.max_sweep_gap
        self._reset()

    async def sweep(self) -> None:
        """Do one sweep: finish interrupted settlements, settle abandoned jobs, release orphaned holds and leases.

        A job is abandoned if its gateway is silent or its deadline passed. The billing process calls this periodically.
        While receipts are not consumed or have a backlog, only settlements are finished.

        Raises:
            StoreUnavailable: the sweep is incomplete; after `max_sweep_gap` seconds of it, all observations start anew.
        """
        await self._finish_settlements()
        if not self.flowing():
            return
        now = self.monotonic()
        if now - self._last_scan > self.timings.max_sweep_gap:
            self._reset()
        self._last_scan = now
        silent = await self._silent_gateways()
        stable = self._stable.seconds("", now) >= self.timings.sweep_stable_period
        if stable and silent:
            await self._settle(await self.stores.jobs.held_by_gateways(silent, MAX_JOBS), "gateway")
        if now >= self._next_full_scan:
            self._next_full_scan = now + self.timings.full_sweep_interval
            overdue = await self._overdue_jobs()
            balances = await self.stores.balances.with_holds()
            orphans = [*await self._orphaned_holds(balances), *await self._abandoned_leases(balances)]
            await self._drop_old_months(balances)
            if stable:
                await self._settle(overdue, "deadline")
                await self._release(orphans)

    def _reset(self) -> None:
        self._stable = FirstSeen()
        self._gateways = FirstSeen()
        self._held = FirstSeen()
        self._orphans = FirstSeen()
        self._leases = FirstSeen()

    async def _finish_settlements(self) -> None:
        jobs = await self.stores.jobs.settling_since(self.clock() - self.timings.settlement_timeout, MAX_JOBS)
        if jobs:
            await self.settler.finish(jobs)
            self.metrics.swept.labels("unfinished").inc(len(jobs))

    async def _silent_gateways(self) -> set[str]:
        """Return the gateways with held jobs that are silent."""
        return await self._with_silent_gateways(
            self._gateways, {each: each for each in await self.stores.jobs.gateways()}
        )

    async def _with_silent_gateways(self, seen: FirstSeen, gateways: Mapping[str, str]) -> set[str]:
        """Return the keys of gateways whose heartbeat count did not change for `gateway_heartbeat_timeout`."""
        beats, now = await self.stores.heartbeats.counts(), self.monotonic()
        counts = {key: f"{key} {beats.get(gateway, 0)}" for key, gateway in gateways.items()}
        seen.keep(list(counts.values()))
        timeout = self.timings.gateway_heartbeat_timeout
        return {key for key, each in counts.items() if seen.seconds(each, now) >= timeout}

    async def _overdue_jobs(self) -> list[JobRecord]:
        """Return the jobs that were held for longer than from their creation to their deadline, and the grace."""
        jobs, now = await self.stores.jobs.held(MAX_JOBS), self.monotonic()
        self.metrics.held.set(len(jobs))
        self._held.keep([job.id for job in jobs])
        grace = self.timings.receipt_grace
        return [job for job in jobs if self._held.seconds(job.id, now) >= job.deadline - job.created + grace]

    async def _settle(self, jobs: Sequence[JobRecord], reason: str) -> None:
        statements = await self._answered(jobs)
        jobs = [job for job in jobs if job.id not in statements]
        used: dict[str, JobUsage] = {}
        for job, usage in await self.usage_store.of_jobs([job.id for job in jobs]) if jobs else ():
            used[job] = _later(used[job], usage) if job in used else usage
        lesser = {job.id: _lesser(job.checkpoint, used.get(job.id)) for job in jobs}
        statements |= {
            job: UsageStatement(each.answer, Outcome.CANCELLED, SettlementSource.SWEPT, parts=each.parts)
            for job, each in lesser.items()
        }
        if statements:
            await self.settler.settle(statements)
            self.metrics.swept.labels(reason).inc(len(statements))
            first = next(iter(statements))
            _log.warning("jobs settled without a receipt", reason=reason, jobs=len(statements), first=first)

    async def _answered(self, jobs: Sequence[JobRecord]) -> dict[str, UsageStatement]:
        """Return what the jobs of requests with an idempotency key are settled to."""
        keyed = {job.id: job.idempotency for job in jobs if job.idempotency}
        if not keyed:
            return {}
        nothing = UsageStatement(Usage(prompt_tokens=0), Outcome.CANCELLED, SettlementSource.SWEPT)
        answered = await self.stores.answers.statements(set(keyed.values()))
        return {job: answered.get(job, nothing) for job in keyed}

    async def _orphaned_holds(self, balances: Sequence[Balance]) -> list[tuple[str, str, Hold]]:
        """Return holds whose job was missing or settled for `full_sweep_interval`; a gateway writes both in seconds."""
        held = {
            job: (balance.organisation, hold)
            for balance in balances
            for job, hold in balance.held.items()
            if not hold.gateway
        }
        jobs, now = await self.stores.jobs.find(held), self.monotonic()
        orphans = [job for job in held if job not in jobs or jobs[job].state is JobState.SETTLED]
        self._orphans.keep(orphans)
        age = self.timings.full_sweep_interval
        return [(held[job][0], job, held[job][1]) for job in orphans if self._orphans.seconds(job, now) >= age]

    async def _abandoned_leases(self, balances: Sequence[Balance]) -> list[tuple[str, str, Hold]]:
        """Return the leases of silent gateways."""
        leases = [(balance.organisation, id, lease) for balance in balances for id, lease in balance.leases.items()]
        silent = await self._with_silent_gateways(self._leases, {id: lease.gateway for _, id, lease in leases})
        return [each for each in leases if each[1] in silent]

    async def _release(self, holds: Sequence[tuple[str, str, Hold]]) -> None:
        for organisation, id, hold in holds:
            if await self.stores.balances.release(organisation, id, hold):
                self.metrics.orphans.inc()
                _log.warning("an orphaned hold was released", id=id, organisation=organisation)

    async def _drop_old_months(self, balances: Sequence[Balance]) -> None:
        for balance in balances:
            if old := sorted(balance.used)[:-RETAINED_MONTHS]:
                await self.stores.balances.drop_months(balance.organisation, old)


class FirstSeen:
    """Measures for how long each key was seen in every sweep."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def seconds(self, key: str, now: float) -> float:
        """Record that a sweep saw `key` at monotonic time `now`; return the seconds since it was first seen."""
        return now - self._since.setdefault(key, now)

    def keep(self, keys: Collection[str]) -> None:
        """Forget the keys that are not among `keys`, the ones that this sweep has seen; their times start anew."""
        kept = set(keys)
        self._since = {key: since for key, since in self._since.items() if key in kept}


def _later(one: JobUsage, other: JobUsage) -> JobUsage:
    """Return the usage of the later of two attempts, which includes what the earlier one delivered."""
    later = other if other.answer.completion_tokens > one.answer.completion_tokens else one
    return JobUsage(later.answer, most_parts(one.parts, other.parts))


def _lesser(checkpoint: JobUsage | None, reported: JobUsage | None) -> JobUsage:
    """Return what the client surely got: nothing without a checkpoint, and at most what the worker reported."""
    if checkpoint is None:
        return JobUsage(NO_USAGE)
    if reported is None:
        return checkpoint
    return JobUsage(least(checkpoint.answer, reported.answer), least_parts(checkpoint.parts, reported.parts))
