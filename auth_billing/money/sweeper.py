"""Settles what nobody else will: jobs whose gateway is silent, whose end nobody reported, whose settler died half-way.

Holds without a job and leases of silent gateways are given back. Any number of sweepers may run: all they do is
idempotent, and whoever is first to settle a job has settled it. A job is settled to the lesser of what its worker
reported and its gateway's last checkpoint; without one it costs nothing.

A sweeper must not be quicker than a receipt on its way. It acts only after receipts have been coming in freely for
`CALM_SECONDS`: after an outage of store or broker those that waited are settled first, and gateways that could not
renew their leases get the time to. It compares no clocks: how long a gateway has been silent, and a job held, is what
this process has seen by its own monotonic clock, so that a clock that steps, anywhere, settles nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence

import structlog

from auth_billing.errors import StoreUnavailable
from auth_billing.metrics import BillingMetrics
from auth_billing.money.books import Balance, Books, Hold, JobRecord, JobState, Source, Word
from auth_billing.money.settler import Settler
from auth_billing.money.usage_store import UsageStore
from router.messages import Outcome, Usage

INTERVAL = 5.0
RARELY = 30.0
"""Seconds between looks at all jobs and all accounts that hold something."""
LEASE_SECONDS = 30.0
"""After this long without a sign of life a gateway is taken for dead. It gives one every 10 s or so."""
CALM_SECONDS = 30.0
BLIND_SECONDS = 15.0
"""After this long without a look at the store, or without receipts flowing, everything is seen for the first time."""
GRACE_SECONDS = 60.0
"""A job's receipt may come this long after its deadline: a gateway closes its jobs within 30 s of it
(docs/design/reliability-contract.md#I1)."""
UNFINISHED_SECONDS = 10.0
"""After this long a settlement that is not finished has lost its settler."""
MOST_JOBS = 10_000
MONTHS_KEPT = 3

_log = structlog.get_logger(__name__)


class Sweeper:
    """Sweeps the books every `INTERVAL` seconds.

    Args:
        books: what is swept.
        usage_store: what workers have reported.
        settler: settles.
        flowing: whether receipts come in and none has to wait, at this moment.
        clock: Unix seconds; only for what is repeated without harm.
        monotonic: seconds.
    """

    def __init__(
        self,
        books: Books,
        usage_store: UsageStore,
        settler: Settler,
        metrics: BillingMetrics,
        *,
        flowing: Callable[[], bool],
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._books = books
        self._usage_store = usage_store
        self._settler = settler
        self._metrics = metrics
        self._flowing = flowing
        self._clock = clock
        self._monotonic = monotonic
        self._last_look = self._next_rare = -BLIND_SECONDS
        self._forget()

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep until `stop`."""
        while not stop.is_set():
            try:
                await self.sweep()
            except StoreUnavailable as error:
                _log.warning("sweeping delayed", reason=str(error))
            try:
                await asyncio.wait_for(stop.wait(), INTERVAL)
            except TimeoutError:
                continue

    async def sweep(self) -> None:
        """Look once.

        Raises:
            StoreUnavailable: if that lasts, nothing that was seen before counts any more.
        """
        await self._finish_settlements()
        if not self._flowing():
            return
        now = self._monotonic()
        if now - self._last_look > BLIND_SECONDS:
            self._forget()
        self._last_look = now
        silent = await self._silent_gateways()
        calm = self._calm.seconds("", now) >= CALM_SECONDS
        if calm and silent:
            await self._settle(await self._books.jobs.held_by(silent, MOST_JOBS), "gateway")
        if now >= self._next_rare:
            self._next_rare = now + RARELY
            overdue = await self._overdue_jobs()
            balances = await self._books.balances.with_holds()
            strays = [*await self._stray_holds(balances), *await self._forsaken_leases(balances)]
            await self._forget_old_months(balances)
            if calm:
                await self._settle(overdue, "deadline")
                await self._release(strays)

    def _forget(self) -> None:
        self._calm = Sightings()
        self._gateways = Sightings()
        self._held = Sightings()
        self._strays = Sightings()
        self._leases = Sightings()

    async def _finish_settlements(self) -> None:
        jobs = await self._books.jobs.settling_since(self._clock() - UNFINISHED_SECONDS, MOST_JOBS)
        if jobs:
            await self._settler.finish(jobs)
            self._metrics.swept.labels("unfinished").inc(len(jobs))

    async def _silent_gateways(self) -> set[str]:
        """Those that hold something and have not been heard of while we listened."""
        beats, now = await self._books.leases.beats(), self._monotonic()
        signs = {gateway: f"{gateway} {beats.get(gateway, 0)}" for gateway in await self._books.jobs.gateways()}
        self._gateways.keep(list(signs.values()))
        return {gateway for gateway, sign in signs.items() if self._gateways.seconds(sign, now) >= LEASE_SECONDS}

    async def _overdue_jobs(self) -> list[JobRecord]:
        """Those that have been held for all the time that they had, and longer."""
        jobs, now = await self._books.jobs.held(MOST_JOBS), self._monotonic()
        self._metrics.held.set(len(jobs))
        self._held.keep([job.id for job in jobs])
        return [job for job in jobs if self._held.seconds(job.id, now) >= job.deadline - job.created + GRACE_SECONDS]

    async def _settle(self, jobs: Sequence[JobRecord], reason: str) -> None:
        used: dict[str, Usage] = {}
        for job, usage in await self._usage_store.of_jobs([job.id for job in jobs]) if jobs else ():
            if job not in used or usage.completion_tokens > used[job].completion_tokens:
                used[job] = usage  # a later attempt counts what earlier ones have delivered
        words = {
            job.id: Word(_least(job.checkpoint, used.get(job.id)), Outcome.CANCELLED, Source.SWEPT) for job in jobs
        }
        if words:
            await self._settler.settle(words)
            self._metrics.swept.labels(reason).inc(len(words))
            _log.warning("jobs settled without a receipt", reason=reason, jobs=len(words), first=next(iter(words)))

    async def _stray_holds(self, balances: Sequence[Balance]) -> list[tuple[str, str, Hold]]:
        """Holds whose job is not known, or settled, now and at the last look: a gateway writes both within seconds."""
        held = {
            job: (balance.organisation, hold)
            for balance in balances
            for job, hold in balance.held.items()
            if not hold.gateway
        }
        jobs, now = await self._books.jobs.find(held), self._monotonic()
        strays = [job for job in held if job not in jobs or jobs[job].state is JobState.SETTLED]
        self._strays.keep(strays)
        return [(held[job][0], job, held[job][1]) for job in strays if self._strays.seconds(job, now) >= RARELY]

    async def _forsaken_leases(self, balances: Sequence[Balance]) -> list[tuple[str, str, Hold]]:
        """Leases of gateways that have not been heard of while we listened."""
        beats, now = await self._books.leases.beats(), self._monotonic()
        leases = [(balance.organisation, id, lease) for balance in balances for id, lease in balance.leases.items()]
        signs = {id: f"{id} {beats.get(lease.gateway, 0)}" for _, id, lease in leases}
        self._leases.keep(list(signs.values()))
        return [each for each in leases if self._leases.seconds(signs[each[1]], now) >= LEASE_SECONDS]

    async def _release(self, strays: Sequence[tuple[str, str, Hold]]) -> None:
        for organisation, id, hold in strays:
            if await self._books.balances.release(organisation, id, hold):
                self._metrics.orphans.inc()
                _log.warning("a hold that nobody needs was given back", id=id, organisation=organisation)

    async def _forget_old_months(self, balances: Sequence[Balance]) -> None:
        for balance in balances:
            if old := sorted(balance.used)[:-MONTHS_KEPT]:
                await self._books.balances.forget_months(balance.organisation, old)


class Sightings:
    """Since when things have been seen without a break, by whoever looks."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def seconds(self, thing: str, now: float) -> float:
        """How long it has been seen; 0 the first time."""
        return now - self._since.setdefault(thing, now)

    def keep(self, things: Collection[str]) -> None:
        """Forget what is not among `things`."""
        there = set(things)
        self._since = {thing: since for thing, since in self._since.items() if thing in there}


def _least(checkpoint: Usage | None, reported: Usage | None) -> Usage:
    """What a client surely got: nothing without a checkpoint, and no more than the worker did."""
    if checkpoint is None:
        return Usage(prompt_tokens=0)
    if reported is None:
        return checkpoint
    prompt = min(checkpoint.prompt_tokens, reported.prompt_tokens)
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=min(checkpoint.completion_tokens, reported.completion_tokens),
        cached_tokens=min(prompt, max(checkpoint.cached_tokens, reported.cached_tokens)),
    )
