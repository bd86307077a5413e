"""Settles jobs: what each cost becomes final, its hold is released, the ledger knows (docs/design/money.md#settlement).

Four writes for any number of jobs, each journaled before the next and each harmless when repeated, so that whoever
stops between two of them leaves nothing that another can't finish:

    S4  job: held -> settling, with its cost; of several that try, one wins, and its word is never changed
    S5  account: the hold goes, what it cost is spent, the rest is available; a hold goes once
    S6  ledger: one row a job, under an id that follows from the job's
    S7  job: settling -> settled

Knows neither messages nor who asks.
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
from auth_billing.money.books import Books, Charge, Final, JobRecord, JobState, Word
from auth_billing.money.ledger import settlement_posting

BATCH = 64
"""Jobs in one write: what the embedded store does within a fraction of its time limit."""
TRIES = 20
"""Of something that can only fail because somebody else has just succeeded."""

_log = structlog.get_logger(__name__)


class Verdict(Enum):
    """What became of somebody's word on a job."""

    SETTLED = "settled"
    REPEATED = "repeated"
    """It was settled to the same word before."""
    CONFLICTING = "conflicting"
    """It was settled to another word before, and stays as it is."""
    UNKNOWN = "unknown"
    """There is no such job."""


class Settler:
    """The only writer of what jobs cost. Any number of them may work on the same jobs."""

    def __init__(self, books: Books, metrics: BillingMetrics, *, clock: Callable[[], float] = time.time) -> None:
        self._books = books
        self._metrics = metrics
        self._clock = clock

    async def settle(self, words: Mapping[str, Word]) -> dict[str, Verdict]:
        """Settle jobs to what is said of them; says of each whether that counts.

        Raises:
            StoreUnavailable: some may be settled, others half: settling them again or `finish` completes it.
        """
        verdicts: dict[str, Verdict] = {}
        waiting = iter(words.items())
        while batch := dict(islice(waiting, BATCH)):
            verdicts.update(await self._settle(batch))
        return verdicts

    async def finish(self, jobs: Sequence[JobRecord]) -> None:
        """S5 to S7, of jobs that are `SETTLING`.

        Raises:
            StoreUnavailable: to be done again.
        """
        by_organisation: dict[str, list[Charge]] = defaultdict(list)
        for job in jobs:
            by_organisation[job.organisation].append(_charge_of(job))
        for charges in by_organisation.values():
            await self._release(charges)
        postings = [settlement_posting(each) for charges in by_organisation.values() for each in charges if each.cost]
        await self._books.ledger.post(postings)
        await self._books.jobs.finish([job.id for job in jobs])

    async def _settle(self, words: Mapping[str, Word]) -> dict[str, Verdict]:
        jobs = await self._books.jobs.find(words)
        charges = [self._charge(job, words[job.id]) for job in jobs.values() if job.state is JobState.HELD]
        if charges:
            await self._hold_what_was_lost(charges)
            all_held = await self._books.jobs.charge(charges)
            charged = {each.job.id: each.charged for each in charges}
            jobs = {**jobs, **(charged if all_held else await self._books.jobs.find(charged))}
        settling = [job for job in jobs.values() if job.state is JobState.SETTLING]
        if settling:
            await self.finish(settling)
        mine = {charge.job.id: charge.final for charge in charges}
        return {job: self._verdict(jobs.get(job), word, mine.get(job)) for job, word in words.items()}

    def _charge(self, job: JobRecord, word: Word) -> Charge:
        final = Final(word.usage, word.outcome, word.source, self._clock())
        cost = job.price.cost(final.usage)
        if cost > job.hold:
            # Nobody pays more than was set aside: a bound that was wrong is our loss, and is to be looked at.
            self._metrics.clamped.inc()
            _log.error("cost clamped to the hold", job=job.id, cost=cost, hold=job.hold, source=final.source.value)
        return Charge(job, min(cost, job.hold), final)

    def _verdict(self, job: JobRecord | None, word: Word, mine: Final | None) -> Verdict:
        if job is None or job.final is None:
            return Verdict.UNKNOWN
        if job.final == mine:
            self._metrics.jobs_settled.labels(word.source.value, word.outcome.value).inc()
            self._metrics.settled_amount.inc(job.cost or 0)
            return Verdict.SETTLED
        return Verdict.REPEATED if job.final.agrees(word) else Verdict.CONFLICTING

    async def _hold_what_was_lost(self, charges: Sequence[Charge]) -> None:
        """Holds are not journaled: a crash of the machine may lose one whose job has cost something since."""
        organisations = {charge.job.organisation for charge in charges}
        balances = {each: await self._books.balances.find(each) for each in organisations}
        for charge in charges:
            balance = balances[charge.job.organisation]
            if charge.cost and balance is not None and charge.job.id not in balance.held:
                await self._hold_again(charge.job)

    async def _hold_again(self, job: JobRecord) -> None:
        """Put a lost hold back, unless it is not lost but settled by somebody else.

        The account is read before the job, and written only if it has not changed since: if the job is still `HELD`
        after the account was read, nobody can have taken the hold away before.
        """
        for _ in range(TRIES):
            balance = await self._books.balances.find(job.organisation)
            if balance is None or job.id in balance.held:
                return
            now = (await self._books.jobs.find([job.id])).get(job.id)
            if now is None or now.state is not JobState.HELD:
                return
            if await self._books.balances.hold_again(job, balance.version):
                _log.error("a lost hold was put back", job=job.id, organisation=job.organisation, hold=job.hold)
                return
        raise StoreUnavailable("an account changes all the time")

    async def _release(self, charges: Sequence[Charge]) -> None:
        """S5 of jobs of one organisation, in one write; those whose hold has gone are done already."""
        for _ in range(TRIES):
            if not charges or await self._books.balances.settle(charges):
                return
            balance = await self._books.balances.find(charges[0].job.organisation)
            charges = [each for each in charges if balance is not None and each.job.id in balance.held]
        raise StoreUnavailable("an account changes all the time")


def _charge_of(job: JobRecord) -> Charge:
    if job.cost is None or job.final is None:
        raise ValueError(f"job {job.id} is {job.state.value} without a cost")
    return Charge(job, job.cost, job.final)
