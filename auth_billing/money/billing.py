"""Billing in the gateway: holds credit before jobs run, voids jobs that were not queued, checkpoints delivered usage.

A hold is drawn from credit that the gateway leased (`credit_leases.py`) if there is enough of it, else it is taken from
the account in one conditional update (`hold_batcher.py`). The documents are written afterwards (`job_write_buffer.py`).

A job's final cost comes from the `Receipt` that the gateway publishes and the billing process settles
(`settlement.py`), or from the sweeper if no receipt comes (`sweeper.py`).
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
from auth_billing.money.billing_records import Balance, BillingStores, JobRecord, SettlementSource, UsageStatement
from auth_billing.money.credit_leases import CreditLeases
from auth_billing.money.hold_batcher import HoldBatcher
from auth_billing.money.holds import MAX_HOLD, HoldRequest, check_id, month_of
from auth_billing.money.job_write_buffer import BATCH_SIZE, JobWriteBuffer
from auth_billing.money.settler import Settler
from auth_billing.prices.price_book import PriceBook
from router.messages import Outcome, Usage
from router.timings import DEFAULT_TIMINGS, Timings
from router.usage_arithmetic import JobUsage, merged

MAX_TRIES = 5
"""Most tries of a hold that is refused although the account, read just after, allows it."""


class Billing:
    """Holds, voids and checkpoints of one gateway process. Amounts are nano-USD.

    Args:
        stores: accounts, jobs, ledger and heartbeats.
        prices: the price list at the time of acceptance.
        clock: Unix seconds.
        monotonic: seconds.
        timings: how long a credit lease is used without a confirmation.
    """

    def __init__(
        self,
        stores: BillingStores,
        prices: PriceBook,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        timings: Timings = DEFAULT_TIMINGS,
    ) -> None:
        self._stores = stores
        self._prices = prices
        self._clock = clock
        self._settler = Settler(stores, BillingMetrics(CollectorRegistry()), clock=clock)
        self._budgets: dict[str, Mapping[str, int]] = {}
        """Budgets as last read, of organisations that have any; a hold fails if they changed."""
        self._uncertain: set[str] = set()
        """Ids of jobs that were not queued and may have a hold."""
        self._holds = HoldBatcher(stores.balances)
        self._leases = CreditLeases(
            stores.balances, clock=clock, monotonic=monotonic, freshness=timings.credit_lease_freshness
        )
        self._buffer = JobWriteBuffer(stores, self._leases, monotonic=monotonic)

    async def reserve(self, principal: Principal, requests: Sequence[HoldRequest]) -> None:
        """Hold the maximum cost of the jobs of one HTTP request, all or none; after that the jobs may be published.

        Waits for the store only if no lease covers the hold, and never for its journal. The jobs' documents are written
        soon after; receipts must wait for `flush_jobs`. If the gateway dies in between, the sweeper releases its leases
        and the holds without jobs.

        Raises:
            InsufficientCredit, BudgetExhausted, AccountClosed: the account does not allow it; nothing is held.
            NoPrice: the price list has no entry for the model, or for a model or unit that the job's steps may use.
            StoreUnavailable: the outcome is unknown; a hold that was taken is released soon.
            ValueError: a job's id has other characters than letters, digits, `_` and `-`.
        """
        jobs = await self._jobs(principal, requests)
        needed = sum(job.hold for job in jobs)
        if needed > MAX_HOLD:
            raise InsufficientCredit(MAX_HOLD, needed)
        lease = None if self._buffer.is_behind else self._leases.draw(jobs)
        if lease is None:
            try:
                await self._hold(jobs)
            except (StoreUnavailable, asyncio.CancelledError):
                self._uncertain.update(job.id for job in jobs)
                self._buffer.add(jobs)
                raise
        self._buffer.add(jobs, lease)

    def is_written(self, job: str) -> bool:
        """Return whether a reserved job's hold and document are in the store, so that the job can be settled."""
        return self._buffer.is_written(job)

    async def flush_jobs(self, jobs: Collection[str]) -> None:
        """Wait until the holds and documents of these reserved jobs are stored, so that they can be settled.

        Raises:
            StoreUnavailable: not all are written; repeat the call.
        """
        await self._buffer.flush_jobs(jobs)

    async def void(self, jobs: Sequence[str]) -> None:
        """Settle jobs that were never queued, at no cost, and release their holds; settled jobs are not changed.

        Raises:
            StoreUnavailable: the next `record_heartbeat` voids the jobs.
        """
        nothing = UsageStatement(Usage(prompt_tokens=0), Outcome.CANCELLED, SettlementSource.VOID)
        self._uncertain.update(jobs)
        await self.flush_jobs(jobs)
        await self._settler.settle(dict.fromkeys(jobs, nothing))
        self._uncertain.difference_update(jobs)

    async def checkpoint(self, usage_by_job: Mapping[str, JobUsage]) -> None:
        """Store, by job id, the usage delivered to clients so far: what they pay if this gateway dies.

        Raises:
            StoreUnavailable: may be ignored; the next checkpoint includes this usage.
        """
        await self.flush_jobs(usage_by_job)
        waiting = iter(usage_by_job.items())
        while batch := dict(islice(waiting, BATCH_SIZE)):
            await self._stores.jobs.checkpoint(batch)

    async def record_heartbeat(self, gateway: str) -> None:
        """Store a heartbeat of the gateway with this id, release idle leases and repeat failed voids.

        Called about every 10 s. The sweeper settles the jobs of a gateway without heartbeats to their checkpoints.

        Raises:
            StoreUnavailable: repeat the call soon.
        """
        await self._stores.heartbeats.increment(gateway)
        self._leases.retire_idle()
        await self._buffer.flush()
        if self._uncertain:
            await self.void(list(self._uncertain))

    async def release_leases(self) -> None:
        """Release all credit leases of this gateway after its last request; unused credit returns to the accounts.

        Raises:
            StoreUnavailable: repeat the call, or leave the leases to the sweeper.
        """
        self._leases.retire_all()
        await self._buffer.flush()

    async def _jobs(self, principal: Principal, requests: Sequence[HoldRequest]) -> list[JobRecord]:
        prices, now = await self._prices.current(), self._clock()
        jobs = []
        for request in requests:
            price = prices.price_of(request.model, request.max_usage, request.service_class)
            parts = merged(request.max_parts)
            part_prices = {part.model: prices.price_of(part.model, part.usage, request.service_class) for part in parts}
            part_cost = sum(part_prices[part.model].cost(part.usage) for part in parts)
            jobs.append(
                JobRecord(
                    id=check_id(request.job),
                    organisation=principal.tenant,
                    project=principal.project,
                    key=principal.key_id,
                    user=principal.user,
                    model=request.model,
                    service_class=request.service_class,
                    gateway=request.gateway,
                    created=now,
                    deadline=request.deadline,
                    month=month_of(now),
                    price=price,
                    hold=price.cost(request.max_usage) + part_cost,
                    part_prices=part_prices,
                    idempotency=request.idempotency,
                )
            )
        return jobs

    async def _hold(self, jobs: Sequence[JobRecord]) -> None:
        """Hold from the account. Raises `HoldRefused` or `StoreUnavailable`."""
        organisation = jobs[0].organisation
        held = await self._holds.hold(jobs, self._budgets.get(organisation, {}))
        for _ in range(MAX_TRIES):
            if held:
                return
            balance = await self._read_balance(organisation)
            if all(job.id in balance.held for job in jobs):
                return  # held by a write whose answer was lost
            try:
                _check(balance, jobs)
            except HoldRefused:
                if not self._leases.retire(organisation):
                    raise
                await self._buffer.flush()  # the credit that this gateway leased may be enough
            held = await self._stores.balances.hold(jobs, balance.budgets)  # the account changed since the refusal
        raise StoreUnavailable("the account keeps changing")

    async def _read_balance(self, organisation: str) -> Balance:
        """Return an organisation's account, created if it is new, and remember its budgets."""
        balance = await self._stores.balances.find(organisation)
        if balance is None:
            await self._stores.balances.create(organisation)
            balance = await self._stores.balances.find(organisation)
        self._budgets.pop(organisation, None)
        if balance is not None and balance.budgets:
            self._budgets[organisation] = balance.budgets
        return balance or Balance(organisation, 0, 0)


def _check(balance: Balance, jobs: Sequence[JobRecord]) -> None:
    """Raise `AccountClosed`, `InsufficientCredit` or `BudgetExhausted` if an account does not allow the holds."""
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
