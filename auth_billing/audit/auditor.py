"""Audits the books: reads all accounts, jobs and ledger entries, and reports violated invariants. Read-only.

It may run beside a live platform, so the documents are from different moments. Where possible they are read in an order
that makes concurrent writes harmless (a job before its ledger entry, which is written first); a suspected difference is
checked again after the time that a settlement takes, and reported only if it persists. Pages are small, to bound memory
and the load on the store.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence

from auth_billing.audit import audit_checks
from auth_billing.audit.audit_records import AuditReport, AuditStore, Check, Difference, RawLedgerEntry
from auth_billing.money.billing_records import Balance
from router.timings import DEFAULT_TIMINGS, Timings

PAGE = 200
CHECK_ROUNDS = 3
"""Number of times that a difference must be found."""

CheckSubjects = Callable[[Collection[str]], Awaitable[list[Difference]]]
"""Returns the differences of some subjects, given by id."""


class Auditor:
    """Compares the accounts, jobs and ledger entries of one store, and reports where they contradict each other.

    Args:
        store: read access to the books.
        clock: Unix seconds.
        timings: the times by which holds, leases and credit are due.
        pause: seconds between repeated checks; by default `timings.audit_recheck_interval`.
    """

    def __init__(
        self,
        store: AuditStore,
        *,
        clock: Callable[[], float] = time.time,
        timings: Timings = DEFAULT_TIMINGS,
        pause: float | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._timings = timings
        self._pause = timings.audit_recheck_interval if pause is None else pause

    async def audit(self) -> AuditReport:
        """Check all accounts, jobs and ledger entries once, changing none; return the counts and the differences.

        Raises:
            StoreUnavailable: the store went away; there is no result.
        """
        accounts, of_accounts = await self._all(self._store.accounts, self._accounts)
        jobs, of_jobs = await self._all(self._store.job_ids, self._jobs)
        rows, of_rows = await self._rows()
        return AuditReport(accounts, jobs, rows, [*of_accounts, *of_jobs, *of_rows])

    async def _all(
        self, page: Callable[[str, int], Awaitable[Sequence[str]]], check: CheckSubjects
    ) -> tuple[int, list[Difference]]:
        """Check all subjects; return their number and the persistent differences."""
        count, wrong = 0, {}
        async for ids in _pages(page):
            count += len(ids)
            if await check(ids):
                wrong.update(await _each(ids, check))
        for _ in range(CHECK_ROUNDS - 1):
            if not wrong:
                break
            await asyncio.sleep(self._pause)
            again = await _each(wrong, check)
            wrong = {each: same for each, found in again.items() if (same := _persistent(found, wrong[each]))}
        return count, [difference for found in wrong.values() for difference in found]

    async def _accounts(self, organisations: Collection[str]) -> list[Difference]:
        found = []
        for organisation in organisations:
            found += await self._account(organisation)
        return found

    async def _account(self, organisation: str) -> list[Difference]:
        before = await self._store.balance(organisation)
        settling = await self._store.settling(organisation)
        rows = await self._store.settlements([job.id for job in settling])
        sums = await self._store.sums(organisation, before.credits if isinstance(before, Balance) else 0)
        after = await self._store.balance(organisation)
        if not isinstance(before, Balance) or not isinstance(after, Balance):
            return [Difference(Check.READABLE, organisation, organisation, str(after))]
        pending = sum(job.cost or 0 for job in settling if job.id not in rows and job.id not in after.held)
        jobs = await self._store.read_jobs(after.held.keys())
        return [
            *audit_checks.check_account(after),
            *audit_checks.check_holds(after, jobs.jobs),
            *audit_checks.check_leases(after, self._clock(), self._timings),
            *audit_checks.check_ledger_sums(before, sums, pending, after),
            *audit_checks.check_pending_credit(organisation, sums, self._clock(), self._timings),
        ]

    async def _jobs(self, ids: Collection[str]) -> list[Difference]:
        read = await self._store.read_jobs(ids)
        rows = await self._store.settlements(ids)
        worked = await self._store.worked(ids)
        balances = {each: await self._store.balance(each) for each in {job.organisation for job in read.jobs.values()}}
        now = self._clock()
        found = [Difference(Check.READABLE, "", job, why) for job, why in read.unreadable.items()]
        for job in read.jobs.values():
            balance = balances[job.organisation]
            found += audit_checks.check_job(job, now, self._timings)
            readable = balance if isinstance(balance, Balance) else None
            found += audit_checks.check_hold_of_job(job, readable, now, self._timings)
            found += audit_checks.check_entry_of_job(job, rows.get(job.id))
            found += audit_checks.check_usage_of_job(job, worked.get(job.id, {}), now, self._timings)
        return found

    async def _rows(self) -> tuple[int, list[Difference]]:
        """Check all ledger entries; once, since they are immutable."""
        count, found = 0, []
        after = ""
        while rows := await self._store.rows(after, PAGE):
            count, after = count + len(rows), rows[-1].id
            found += await self._some_rows(rows)
        return count, found

    async def _some_rows(self, rows: Sequence[RawLedgerEntry]) -> list[Difference]:
        read = await self._store.read_jobs({row.job for row in rows if row.job is not None})
        found: list[Difference] = []
        for row in rows:
            found += audit_checks.check_entry(row)
            if row.job not in read.unreadable:
                found += audit_checks.check_job_of_entry(row, read.jobs)
        return found


async def _pages(page: Callable[[str, int], Awaitable[Sequence[str]]]) -> AsyncIterator[Sequence[str]]:
    after = ""
    while ids := await page(after, PAGE):
        yield ids
        after = ids[-1]


async def _each(ids: Collection[str], check: CheckSubjects) -> dict[str, list[Difference]]:
    """Return the differences by subject, for subjects that have any."""
    return {each: found for each in ids if (found := await check([each]))}


def _persistent(found: Sequence[Difference], before: Sequence[Difference]) -> list[Difference]:
    """Return the differences that were found before too. (Work in progress concerns other jobs by then.)"""
    known = {(each.check, each.subject) for each in before}
    return [each for each in found if (each.check, each.subject) in known]
