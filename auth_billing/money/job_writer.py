"""Writes jobs behind the backs of their requests: their holds, where a lease has paid, and then their documents.

What comes within `PAUSE` is written together, one update an account and one insert for all. A job's hold is there
before its document, and it is settled by its document: so nothing is ever settled that holds nothing. What can't be
written waits until the next time; there is one as soon as anybody asks. Knows no prices and no MongoDB.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import structlog

from auth_billing.errors import RecordRefused, StoreUnavailable
from auth_billing.money.books import Balance, Books, JobRecord
from auth_billing.money.credit_leases import CreditLeases

PAUSE = 0.2
"""Seconds that a job may wait for others; the answer to a short request is out by then."""
BATCH = 64
"""Jobs in one write: what the embedded store does within a fraction of its time limit."""
BEHIND_SECONDS = 1.0
"""Who has not written for that long gives nothing out of leases."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Unwritten:
    job: JobRecord
    lease: str | None
    """What its hold is to be taken from; `None`: it is there, or may be."""
    since: float


class JobWriter:
    """What one gateway has accepted and not written yet."""

    def __init__(self, books: Books, leases: CreditLeases, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._books = books
        self._leases = leases
        self._monotonic = monotonic
        self._unwritten: dict[str, _Unwritten] = {}
        self._next: asyncio.Future[None] | None = None
        """The next time that all is written, if anybody waits for it."""
        self._running: asyncio.Task[None] | None = None

    @property
    def behind(self) -> bool:
        """Whether something should have been written long since."""
        oldest = next(iter(self._unwritten.values()), None)
        return oldest is not None and self._monotonic() - oldest.since > BEHIND_SECONDS

    def add(self, jobs: Sequence[JobRecord], lease: str | None = None) -> None:
        """Jobs to be written soon; their holds are taken from a lease, or are in the account (or may be)."""
        now = self._monotonic()
        self._unwritten.update((job.id, _Unwritten(job, lease, now)) for job in jobs)
        self._soon()

    async def written(self, jobs: Collection[str]) -> None:
        """Wait until jobs are written; those that are not known here are.

        Raises:
            StoreUnavailable: to be asked for again.
        """
        if any(job in self._unwritten for job in jobs):
            await self.flushed()

    async def flushed(self) -> None:
        """Wait until all is written that has come until now, and leases are settled up.

        Raises:
            StoreUnavailable: to be asked for again.
        """
        if self._unwritten or self._leases.leaving or self._next is not None:
            await asyncio.shield(self._soon())

    def _soon(self) -> asyncio.Future[None]:
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return self._next

    async def _run(self) -> None:
        while (waited := self._next) is not None:
            await asyncio.sleep(PAUSE)
            self._next = None
            try:
                await self._write_all()
            except StoreUnavailable as error:
                self._leases.doubt()
                waited.set_exception(error)
                waited.exception()  # nobody need be waiting
            else:
                waited.set_result(None)
            finally:
                waited.cancel()  # unless it is done

    async def _write_all(self) -> None:
        waiting = iter(list(self._unwritten.values()))
        organisations = set(self._leases.leaving)
        while batch := list(islice(waiting, BATCH)):
            for organisation, portions in _portions(batch).items():
                await self._hand_over(organisation, portions)
            await self._insert([each.job for each in batch])
            for each in batch:
                self._unwritten.pop(each.job.id, None)
                organisations.add(each.job.organisation)
        for organisation in organisations:
            await self._leases.settle_up(organisation, self._takes_from)

    def _takes_from(self, lease: str) -> bool:
        return any(each.lease == lease for each in self._unwritten.values())

    async def _hand_over(self, organisation: str, portions: Mapping[str, Sequence[JobRecord]]) -> None:
        """Give jobs their holds out of leases; where a lease is not there any more, out of what is."""
        if not await self._books.balances.hand_over(organisation, portions):
            balance = await self._books.balances.find(organisation) or Balance(organisation, 0, 0)
            for lease, jobs in portions.items():
                if left := [job for job in jobs if job.id not in balance.held]:
                    await self._hold(lease, left, balance.budgets)
        for jobs in portions.values():
            self._held(jobs)

    async def _hold(self, lease: str, jobs: Sequence[JobRecord], budgets: Mapping[str, int]) -> None:
        """Hold out of a lease, or without it: a crash of the store may lose one, and a silent gateway loses its own."""
        organisation = jobs[0].organisation
        if not await self._books.balances.hand_over(organisation, {lease: jobs}):
            self._leases.lost(lease)
            held = await self._books.balances.hold(jobs, budgets)
            # If it does not, settling puts the holds back: the jobs were accepted while the credit was set aside.
            _log.error("a lease is lost", lease=lease, organisation=organisation, jobs=len(jobs), held=held)

    def _held(self, jobs: Sequence[JobRecord]) -> None:
        for job in jobs:
            self._unwritten[job.id] = _Unwritten(job, None, self._unwritten[job.id].since)

    async def _insert(self, jobs: Sequence[JobRecord]) -> None:
        try:
            await self._books.jobs.insert(jobs)
        except RecordRefused:
            for job in jobs:
                try:
                    await self._books.jobs.insert([job])
                except RecordRefused as error:  # its hold has no job then, and is given back by the sweeper
                    _log.error("the store refused a job", job=job.id, reason=str(error))


def _portions(batch: Sequence[_Unwritten]) -> Mapping[str, Mapping[str, Sequence[JobRecord]]]:
    """By organisation and lease, the jobs that are paid from it."""
    found: dict[str, dict[str, list[JobRecord]]] = defaultdict(lambda: defaultdict(list))
    for each in batch:
        if each.lease is not None:
            found[each.job.organisation][each.lease].append(each.job)
    return found
