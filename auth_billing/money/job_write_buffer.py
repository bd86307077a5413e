"""Write-behind buffer of a gateway's jobs: batches the writes of holds and job documents off the request path.

Jobs accepted within `FLUSH_DELAY` are written together: one update per account for the holds that were drawn from
leases, and one insert for all documents. A job's hold is written before its document, and settlement needs the
document, so no job is settled without a hold. Writes that fail are repeated by the next flush, which the next job or
the next wait for one starts.
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
from auth_billing.money.billing_records import Balance, BillingStores, JobRecord
from auth_billing.money.credit_leases import CreditLeases

FLUSH_DELAY = 0.2
"""Seconds that a job may wait to be written with others; a short request is answered by then."""
BATCH_SIZE = 64
"""Most jobs in one write: the embedded store does that in a fraction of its time limit."""
MAX_LAG = 1.0
"""Seconds that the oldest unwritten job may wait before the gateway stops drawing from leases."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _PendingJob:
    job: JobRecord
    lease: str | None
    """The id of the lease to take the hold from; `None` if the account has the hold, or may have it."""
    since: float


class JobWriteBuffer:
    """Jobs that one gateway accepted and has not written to the store yet."""

    def __init__(
        self, stores: BillingStores, leases: CreditLeases, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._stores = stores
        self._leases = leases
        self._monotonic = monotonic
        self._pending: dict[str, _PendingJob] = {}
        self._flushed: asyncio.Future[None] | None = None
        """The result of the next flush, if one was requested."""
        self._task: asyncio.Task[None] | None = None

    @property
    def is_behind(self) -> bool:
        """Whether the oldest job that is not written to the store has waited longer than `MAX_LAG` seconds."""
        oldest = next(iter(self._pending.values()), None)
        return oldest is not None and self._monotonic() - oldest.since > MAX_LAG

    def is_written(self, job: str) -> bool:
        """Return whether no write of a job is pending; also true for a job that was never added to the buffer."""
        return job not in self._pending

    def add(self, jobs: Sequence[JobRecord], lease: str | None = None) -> None:
        """Buffer accepted jobs and start a flush, which writes them to the store soon; does not wait.

        `lease`: id of the credit lease that the jobs' holds were drawn from; `None`: the account has the holds already.
        """
        now = self._monotonic()
        self._pending.update((job.id, _PendingJob(job, lease, now)) for job in jobs)
        self._request_flush()

    async def flush_jobs(self, jobs: Collection[str]) -> None:
        """Wait until the jobs with these ids are written to the store; return at once if none of them is pending.

        Raises:
            StoreUnavailable: some may be unwritten; repeat the call.
        """
        if any(job in self._pending for job in jobs):
            await self.flush()

    async def flush(self) -> None:
        """Wait until all jobs that are pending now are written to the store, and retired credit leases are released.

        Raises:
            StoreUnavailable: some may be unwritten; repeat the call.
        """
        if self._pending or self._leases.retired_organisations or self._flushed is not None:
            await asyncio.shield(self._request_flush())

    def _request_flush(self) -> asyncio.Future[None]:
        if self._flushed is None:
            self._flushed = asyncio.get_running_loop().create_future()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return self._flushed

    async def _run(self) -> None:
        while (flushed := self._flushed) is not None:
            await asyncio.sleep(FLUSH_DELAY)
            self._flushed = None
            try:
                await self._write_all()
            except StoreUnavailable as error:
                self._leases.suspend()
                flushed.set_exception(error)
                flushed.exception()  # marks it as retrieved: there may be no waiter
            else:
                flushed.set_result(None)
            finally:
                flushed.cancel()  # no effect if it is done

    async def _write_all(self) -> None:
        waiting = iter(list(self._pending.values()))
        organisations = set(self._leases.retired_organisations)
        while batch := list(islice(waiting, BATCH_SIZE)):
            for organisation, jobs_by_lease in _by_lease(batch).items():
                await self._hold_from_leases(organisation, jobs_by_lease)
            await self._insert([each.job for each in batch])
            for each in batch:
                self._pending.pop(each.job.id, None)
                organisations.add(each.job.organisation)
        for organisation in organisations:
            await self._leases.synchronise(organisation, self._is_lease_in_use)

    def _is_lease_in_use(self, lease: str) -> bool:
        return any(each.lease == lease for each in self._pending.values())

    async def _hold_from_leases(self, organisation: str, jobs_by_lease: Mapping[str, Sequence[JobRecord]]) -> None:
        """Turn leased credit into the jobs' holds; where a lease is missing, take the holds from the account."""
        if not await self._stores.balances.hold_from_leases(organisation, jobs_by_lease):
            balance = await self._stores.balances.find(organisation) or Balance(organisation, 0, 0)
            for lease, jobs in jobs_by_lease.items():
                if left := [job for job in jobs if job.id not in balance.held]:
                    await self._hold(lease, left, balance.budgets)
        for jobs in jobs_by_lease.values():
            self._mark_held(jobs)

    async def _hold(self, lease: str, jobs: Sequence[JobRecord], budgets: Mapping[str, int]) -> None:
        """Hold from a lease or, if it is lost, from the account.

        A crash of the store can lose a lease, and the sweeper releases the leases of a gateway without heartbeats.
        """
        organisation = jobs[0].organisation
        if not await self._stores.balances.hold_from_leases(organisation, {lease: jobs}):
            self._leases.discard(lease)
            held = await self._stores.balances.hold(jobs, budgets)
            # If the account refuses, settlement restores the holds: the credit was set aside when the jobs began.
            _log.error("a lease is lost", lease=lease, organisation=organisation, jobs=len(jobs), held=held)

    def _mark_held(self, jobs: Sequence[JobRecord]) -> None:
        for job in jobs:
            self._pending[job.id] = _PendingJob(job, None, self._pending[job.id].since)

    async def _insert(self, jobs: Sequence[JobRecord]) -> None:
        try:
            await self._stores.jobs.insert(jobs)
        except RecordRefused:
            for job in jobs:
                try:
                    await self._stores.jobs.insert([job])
                except RecordRefused as error:  # the sweeper releases its hold, which has no job then
                    _log.error("the store refused a job", job=job.id, reason=str(error))


def _by_lease(batch: Sequence[_PendingJob]) -> Mapping[str, Mapping[str, Sequence[JobRecord]]]:
    """Return the jobs whose holds come from leases, by organisation and lease id."""
    found: dict[str, dict[str, list[JobRecord]]] = defaultdict(lambda: defaultdict(list))
    for each in batch:
        if each.lease is not None:
            found[each.job.organisation][each.lease].append(each.job)
    return found
