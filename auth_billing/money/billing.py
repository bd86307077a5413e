"""The facade of money for gateways: hold before work, void what was not queued, say what clients have got so far.

A hold is taken from credit that the gateway has leased (`credit_leases.py`) where there is enough of it, else from the
account itself, in one conditional update (`joint_holds.py`); what is written of it comes after (`job_writer.py`).

What a job cost in the end is said by a `Receipt` on the queue, and settled by the billing process (`settlement.py`); if
no receipt comes, by the sweeper (`sweeper.py`). Knows no HTTP and no MongoDB.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice

from prometheus_client import CollectorRegistry

from auth_billing.access.principal import Principal
from auth_billing.errors import AccountClosed, BudgetExhausted, HoldRefused, InsufficientCredit, StoreUnavailable
from auth_billing.metrics import BillingMetrics
from auth_billing.money.books import Balance, Books, JobRecord, Source, Word
from auth_billing.money.credit_leases import CreditLeases
from auth_billing.money.holds import MOST_HELD, Work, check_name, month_of
from auth_billing.money.job_writer import BATCH, JobWriter
from auth_billing.money.joint_holds import JointHolds
from auth_billing.money.settler import Settler
from auth_billing.prices.price_book import PriceBook
from router.messages import Outcome, Usage

TRIES = 5
"""Of a hold that was refused although the account, when it was read just after, would have allowed it."""


class Billing:
    """Money, as a gateway sees it. One per process.

    Args:
        books: where money is.
        prices: what jobs cost when they are accepted.
        metrics: counters of this process.
        clock: Unix seconds.
        monotonic: seconds.
    """

    def __init__(
        self,
        books: Books,
        prices: PriceBook,
        *,
        metrics: BillingMetrics | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._books = books
        self._prices = prices
        self._clock = clock
        self._settler = Settler(books, metrics or BillingMetrics(CollectorRegistry()), clock=clock)
        self._budgets: dict[str, Mapping[str, int]] = {}
        """Of organisations that have any, as last seen: a hold finds out whether they are still so."""
        self._doubtful: set[str] = set()
        """Jobs that were not queued, and of which nobody knows whether they hold anything."""
        self._holds = JointHolds(books.balances)
        self._leases = CreditLeases(books.balances, clock=clock, monotonic=monotonic)
        self._writer = JobWriter(books, self._leases, monotonic=monotonic)

    async def reserve(self, principal: Principal, works: Sequence[Work]) -> None:
        """Hold what the jobs of one request may cost at most, all or none; then they may be published.

        Only a hold that no lease pays is waited for, and not for the journal
        (docs/design/money.md#embedded-store). What is written of the jobs
        is written right after; until then there is nothing to settle, so receipts wait for `write`. A gateway that dies
        in between leaves a lease, or holds without jobs, which the sweeper gives back.

        Raises:
            InsufficientCredit, BudgetExhausted, AccountClosed: the account does not allow it; nothing is held.
            NoPrice: nobody has said what the model costs.
            StoreUnavailable: not known; what may be held is given back soon.
        """
        jobs = await self._jobs(principal, works)
        needed = sum(job.hold for job in jobs)
        if needed > MOST_HELD:
            raise InsufficientCredit(MOST_HELD, needed)
        lease = None if self._writer.behind else self._leases.take(jobs)
        if lease is None:
            try:
                await self._hold(jobs)
            except (StoreUnavailable, asyncio.CancelledError):
                self._doubtful.update(job.id for job in jobs)
                self._writer.add(jobs)
                raise
        self._writer.add(jobs, lease)

    async def write(self, jobs: Collection[str]) -> None:
        """Make sure that jobs have their holds and documents: from then on they can be settled.

        Raises:
            StoreUnavailable: to be done again.
        """
        await self._writer.written(jobs)

    async def void(self, jobs: Sequence[str]) -> None:
        """Give back the holds of jobs that were not queued. Of jobs that are settled nothing changes.

        Raises:
            StoreUnavailable: it is tried again with the next `renew_lease`.
        """
        nothing = Word(Usage(prompt_tokens=0), Outcome.CANCELLED, Source.VOID)
        self._doubtful.update(jobs)
        await self.write(jobs)
        await self._settler.settle(dict.fromkeys(jobs, nothing))
        self._doubtful.difference_update(jobs)

    async def checkpoint(self, usage_by_job: Mapping[str, Usage]) -> None:
        """Note what clients have got so far: what they pay if this gateway dies. Every 2 s or 64 tokens
        (docs/design/money.md#settlement).

        Raises:
            StoreUnavailable: the next one says more.
        """
        await self.write(usage_by_job)
        waiting = iter(usage_by_job.items())
        while batch := dict(islice(waiting, BATCH)):
            await self._books.jobs.checkpoint(batch)

    async def renew_lease(self, gateway: str) -> None:
        """Say that a gateway is alive, every 10 s or so: the jobs of a silent one are settled to their checkpoints.

        Raises:
            StoreUnavailable: to be tried again soon.
        """
        await self._books.leases.beat(gateway)
        self._leases.retire_idle()
        await self._writer.flushed()
        if self._doubtful:
            await self.void(list(self._doubtful))

    async def give_back_leases(self) -> None:
        """Give back what is leased, when no request comes any more.

        Raises:
            StoreUnavailable: to be done again, or left to the sweeper.
        """
        self._leases.retire_all()
        await self._writer.flushed()

    async def _jobs(self, principal: Principal, works: Sequence[Work]) -> list[JobRecord]:
        prices, now = await self._prices.current(), self._clock()
        jobs = []
        for work in works:
            price = prices.price(work.model, work.service_class)
            jobs.append(
                JobRecord(
                    id=check_name(work.job),
                    organisation=principal.tenant,
                    project=principal.project,
                    key=principal.key_id,
                    user=principal.user,
                    model=work.model,
                    service_class=work.service_class,
                    gateway=work.gateway,
                    created=now,
                    deadline=work.deadline,
                    month=month_of(now),
                    price=price,
                    hold=price.cost(work.most),
                )
            )
        return jobs

    async def _hold(self, jobs: Sequence[JobRecord]) -> None:
        """Raises: `HoldRefused`, `StoreUnavailable`."""
        organisation = jobs[0].organisation
        held = await self._holds.hold(jobs, self._budgets.get(organisation, {}))
        for _ in range(TRIES):
            if held:
                return
            balance = await self._balance(organisation)
            if all(job.id in balance.held for job in jobs):
                return  # held by a write whose answer was lost
            try:
                _check(balance, jobs)
            except HoldRefused:
                if not self._leases.retire(organisation):
                    raise
                await self._writer.flushed()  # what this gateway has leased may be enough
            held = await self._books.balances.hold(jobs, balance.budgets)  # it had less, or other budgets, a moment ago
        raise StoreUnavailable("an account changes all the time")

    async def _balance(self, organisation: str) -> Balance:
        """An organisation's account; a new organisation's is made here."""
        balance = await self._books.balances.find(organisation)
        if balance is None:
            await self._books.balances.open(organisation)
            balance = await self._books.balances.find(organisation)
        self._budgets.pop(organisation, None)
        if balance is not None and balance.budgets:
            self._budgets[organisation] = balance.budgets
        return balance or Balance(organisation, 0, 0)


def _check(balance: Balance, jobs: Sequence[JobRecord]) -> None:
    """Raises: `AccountClosed`, `InsufficientCredit`, `BudgetExhausted`."""
    one, needed = jobs[0], sum(job.hold for job in jobs)
    if not balance.is_open:
        raise AccountClosed
    if balance.available < needed:
        raise InsufficientCredit(balance.available, needed)
    used = balance.used.get(one.month, {})
    for name in one.budgets:
        left = balance.budgets.get(name, 0) - used.get(name, 0)
        if name in balance.budgets and left < needed:
            raise BudgetExhausted(name, left, needed)
