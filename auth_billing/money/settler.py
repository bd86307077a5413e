"""Settles jobs: makes each job's cost final, releases its hold, and posts the ledger entry.

Any number of jobs take four writes, each journaled before the next and each idempotent, so that a settlement
interrupted between two of them can be finished by another process (docs/design/money.md#settlement):

    S4  job: held -> settling, with its cost; of concurrent settlers one wins, and its statement never changes
    S5  account: the hold is removed, the cost is spent, the rest is available again
    S6  ledger: one entry a job, under an id derived from the job's
    S7  job: settling -> settled
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import islice

import structlog

from auth_billing.errors import StoreUnavailable
from auth_billing.metrics import BillingMetrics
from auth_billing.money.billing_records import BillingStores, Charge, FinalUsage, JobRecord, JobState, UsageStatement
from auth_billing.money.ledger import settlement_entry
from router.usage_arithmetic import JobUsage

BATCH_SIZE = 64
"""Most jobs in one write: the embedded store does that in a fraction of its time limit."""
MAX_TRIES = 20
"""Most tries of a conditional update that fails only because another process changed the account first."""

_log = structlog.get_logger(__name__)


class SettlementResult(Enum):
    """The effect of a usage statement on its job."""

    SETTLED = "settled"
    REPEATED = "repeated"
    """The job was settled to the same usage before."""
    CONFLICTING = "conflicting"
    """The job was settled to another usage before, and stays as it is."""
    UNKNOWN = "unknown"
    """There is no such job."""


class Settler:
    """The only writer of jobs' costs. Settlers in several processes may settle the same jobs: the first one wins."""

    def __init__(
        self, stores: BillingStores, metrics: BillingMetrics, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._stores = stores
        self._metrics = metrics
        self._clock = clock

    async def settle(self, statements: Mapping[str, UsageStatement]) -> dict[str, SettlementResult]:
        """Settle jobs to the usage stated by job id: charge the account, release the hold, post the ledger entry.

        Return the effect of each statement, by job id. The first statement of a job is final. Costs are nano-USD, at
        most the job's hold.

        Raises:
            StoreUnavailable: some jobs may be settled or half-settled; repeating the call, or `finish`, completes them.
        """
        results: dict[str, SettlementResult] = {}
        waiting = iter(statements.items())
        while batch := dict(islice(waiting, BATCH_SIZE)):
            results.update(await self._settle(batch))
        return results

    async def finish(self, jobs: Sequence[JobRecord]) -> None:
        """Finish interrupted settlements of `SETTLING` jobs: account, ledger entry, state `SETTLED` (steps S5 to S7).

        Raises:
            StoreUnavailable: some may be unfinished; repeat the call.
            ValueError: a job has no cost.
        """
        by_organisation: dict[str, list[Charge]] = defaultdict(list)
        for job in jobs:
            by_organisation[job.organisation].append(_charge_of(job))
        for charges in by_organisation.values():
            await self._settle_account(charges)
        entries = [settlement_entry(each) for charges in by_organisation.values() for each in charges if each.cost]
        await self._stores.ledger.post(entries)
        await self._stores.jobs.finish([job.id for job in jobs])

    async def _settle(self, statements: Mapping[str, UsageStatement]) -> dict[str, SettlementResult]:
        jobs = await self._stores.jobs.find(statements)
        charges = [self._charge(job, statements[job.id]) for job in jobs.values() if job.state is JobState.HELD]
        if charges:
            await self._restore_lost_holds(charges)
            all_held = await self._stores.jobs.charge(charges)
            charged = {each.job.id: each.charged for each in charges}
            jobs = {**jobs, **(charged if all_held else await self._stores.jobs.find(charged))}
        settling = [job for job in jobs.values() if job.state is JobState.SETTLING]
        if settling:
            await self.finish(settling)
        own = {charge.job.id: charge.final for charge in charges}
        return {job: self._result(jobs.get(job), each, own.get(job)) for job, each in statements.items()}

    def _charge(self, job: JobRecord, statement: UsageStatement) -> Charge:
        used = JobUsage(statement.usage, statement.parts)
        cost, (answer, parts) = job.cost_of(used), job.shares(used)
        final = FinalUsage(
            statement.usage,
            statement.outcome,
            statement.source,
            self._clock(),
            parts=statement.parts,
            reported=statement.reported,
            part_costs=parts,
        )
        unpriced = [part.model for part in statement.parts if part.model not in job.part_prices]
        if cost > job.hold or unpriced:
            # No customer pays more than the hold: a wrong bound is the operator's loss, and must be looked into.
            self._metrics.clamped.inc()
            _log.error(
                "cost clamped to the hold",
                job=job.id,
                cost=cost,
                hold=job.hold,
                source=final.source.value,
                unpriced=unpriced,
            )
        return Charge(job, answer + sum(parts), final)

    def _result(self, job: JobRecord | None, statement: UsageStatement, own: FinalUsage | None) -> SettlementResult:
        if job is None or job.final is None:
            return SettlementResult.UNKNOWN
        if job.final == own:
            self._metrics.jobs_settled.labels(statement.source.value, statement.outcome.value).inc()
            self._metrics.settled_amount.inc(job.cost or 0)
            return SettlementResult.SETTLED
        return SettlementResult.REPEATED if job.final.agrees(statement) else SettlementResult.CONFLICTING

    async def _restore_lost_holds(self, charges: Sequence[Charge]) -> None:
        """Restore holds that a crash of the store's machine lost; holds are not journaled."""
        organisations = {charge.job.organisation for charge in charges}
        balances = {each: await self._stores.balances.find(each) for each in organisations}
        for charge in charges:
            balance = balances[charge.job.organisation]
            if charge.cost and balance is not None and charge.job.id not in balance.held:
                await self._restore_hold(charge.job)

    async def _restore_hold(self, job: JobRecord) -> None:
        """Put a missing hold back, unless it is missing because another settler settled the job.

        The account is read before the job and written only if it is unchanged: a job that is `HELD` after the account
        was read cannot have been settled in the account before.
        """
        for _ in range(MAX_TRIES):
            balance = await self._stores.balances.find(job.organisation)
            if balance is None or job.id in balance.held:
                return
            now = (await self._stores.jobs.find([job.id])).get(job.id)
            if now is None or now.state is not JobState.HELD:
                return
            if await self._stores.balances.restore_hold(job, balance.version):
                _log.error("a lost hold was restored", job=job.id, organisation=job.organisation, hold=job.hold)
                return
        raise StoreUnavailable("the account keeps changing")

    async def _settle_account(self, charges: Sequence[Charge]) -> None:
        """Settle jobs of one organisation in its account (S5); jobs without a hold there are settled already."""
        for _ in range(MAX_TRIES):
            if not charges or await self._stores.balances.settle(charges):
                return
            balance = await self._stores.balances.find(charges[0].job.organisation)
            charges = [each for each in charges if balance is not None and each.job.id in balance.held]
        raise StoreUnavailable("the account keeps changing")


def _charge_of(job: JobRecord) -> Charge:
    if job.cost is None or job.final is None:
        raise ValueError(f"job {job.id} is {job.state.value} without a cost")
    return Charge(job, job.cost, job.final)
