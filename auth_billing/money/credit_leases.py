"""Credit leases: sets credit aside for a gateway in advance, so that most holds are a subtraction in its memory.

A lease is an entry among an account's holds, for one project, key and month. It counts against the credit and the
budgets that its jobs' holds count against, and no other gateway can use it. What requests draw from a lease becomes
their own holds off the request path (`job_write_buffer.py`), always before they are settled. So the account is as
exact as without leases. Their price is that another gateway may refuse a request for which only leased credit is left;
therefore all leases of an account together take at most 1/`LEASE_SHARE` of what is available, and of what each budget
has left, and none is taken when little is left.

A gateway takes a lease for a payer that had two requests within seconds, for about what it used, and releases it soon
after the payer stops. It draws nothing from a lease that the account did not confirm in the last `freshness` seconds: a
closed account or a lower budget is in force after that time, and a gateway without its store stops.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from auth_billing.errors import StoreUnavailable
from auth_billing.money.billing_records import Balance, BalanceStore, Hold, JobRecord
from auth_billing.money.holds import budget_names

LEASE_SHARE = 16
"""One in this many nano-USD may be leased."""
MIN_REQUESTS = 4
"""A lease covers at least this many requests of average size."""
MAX_LEASES = 64
"""Most leases in one account, to keep its document small."""
DEMAND_PERIOD = 1.0
"""Length in seconds of the period whose requests determine a lease's size."""
MAX_REMEMBERED = 1024
"""Most requests of a payer that are remembered."""

_NEVER = float("-inf")


@dataclass(frozen=True)
class Payer:
    """The organisation that pays for a job, and the project, key and month whose budgets it counts against."""

    organisation: str
    project: str
    key: str
    month: str

    @classmethod
    def of(cls, job: JobRecord) -> Payer:
        """Return the payer of a job: its organisation, project, key and month."""
        return cls(job.organisation, job.project, job.key, job.month)


class _Lease:
    """A payer's lease as far as requests did not draw on it, and the payer's recent demand. Amounts are nano-USD."""

    def __init__(self, gateway: str, freshness: float) -> None:
        self.gateway = gateway
        self._freshness = freshness
        self.id = f"lease-{secrets.token_hex(8)}"
        self.exists = False
        """Whether the account has this lease, or may have it."""
        self.remaining = 0
        self.confirmed_at = _NEVER
        """When the account was last read and allowed the lease (monotonic seconds)."""
        self._demand: deque[tuple[float, int]] = deque(maxlen=MAX_REMEMBERED)

    def record_demand(self, amount: int, now: float) -> None:
        """Record that a request needs a hold of `amount` (nano-USD) at monotonic time `now`, to size the lease."""
        self._demand.append((now, amount))
        while now - self._demand[0][0] > self._freshness:
            self._demand.popleft()

    @property
    def min_amount(self) -> int:
        """The smallest amount (nano-USD) to add to the lease: what `MIN_REQUESTS` average recent requests need."""
        return MIN_REQUESTS * sum(amount for _, amount in self._demand) // max(1, len(self._demand))

    def target(self, now: float) -> int:
        """Return the lease's amount (nano-USD) to aim for at monotonic time `now`, 0 if no further request is likely.

        It is twice the payer's demand of the last second.
        """
        if len(self._demand) < 2 or self.is_idle(now):
            return 0
        return max(self.min_amount, 2 * sum(amount for at, amount in self._demand if now - at <= DEMAND_PERIOD))

    def is_idle(self, now: float) -> bool:
        """Return whether the payer had no request in the `freshness` seconds before monotonic time `now`."""
        return not self._demand or now - self._demand[-1][0] > self._freshness


class CreditLeases:
    """The credit leases of one gateway: credit set aside in advance, so that most holds need no store access.

    Args:
        balances: the accounts.
        clock: Unix seconds, stored with leases.
        monotonic: seconds.
        freshness: age in seconds of the account's last confirmation up to which its lease is used.
    """

    def __init__(
        self,
        balances: BalanceStore,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        freshness: float,
    ) -> None:
        self._balances = balances
        self._freshness = freshness
        self._clock = clock
        self._monotonic = monotonic
        self._leases: dict[Payer, _Lease] = {}
        self._retired: dict[str, str] = {}
        """The organisations of leases that must be released, by lease id."""

    def draw(self, jobs: Sequence[JobRecord]) -> str | None:
        """Draw the holds of one request's jobs from the credit lease of their payer, in memory.

        Return the lease's id, or `None` if the lease does not suffice: then the holds must be taken from the account.
        """
        needed, now = sum(job.hold for job in jobs), self._monotonic()
        payer = Payer.of(jobs[0])
        if (lease := self._leases.get(payer)) is None:
            lease = self._leases[payer] = _Lease(jobs[0].gateway, self._freshness)
        lease.record_demand(needed, now)
        if not lease.exists or lease.remaining < needed or now - lease.confirmed_at > self._freshness:
            return None
        lease.remaining -= needed
        return lease.id

    def suspend(self) -> None:
        """Stop drawing from every credit lease, since the store did not answer, until its account is read again."""
        for lease in self._leases.values():
            lease.confirmed_at = _NEVER

    def discard(self, lease_id: str) -> None:
        """Retire a credit lease that its account lacks, or of which the account has less than expected."""
        self._retire(payer for payer, lease in self._leases.items() if lease.id == lease_id)

    def retire(self, organisation: str) -> bool:
        """Stop using an organisation's credit leases; return whether `synchronise` must release any to the account."""
        self._retire(payer for payer in self._leases if payer.organisation == organisation)
        return organisation in self.retired_organisations

    def retire_idle(self) -> None:
        """Stop using the credit leases of payers without recent requests; `synchronise` then releases them."""
        now = self._monotonic()
        self._retire(payer for payer, lease in self._leases.items() if lease.is_idle(now))

    def retire_all(self) -> None:
        """Stop using all credit leases of this gateway; `synchronise` releases them to the accounts."""
        self._retire(self._leases)

    @property
    def retired_organisations(self) -> Collection[str]:
        """Ids of the organisations that have retired credit leases which `synchronise` must release to the accounts."""
        return set(self._retired.values())

    async def synchronise(self, organisation: str, in_use: Callable[[str], bool]) -> None:
        """Read an organisation's account, confirm and extend its credit leases, and release retired ones.

        Each lease is changed atomically. `in_use` returns whether a job's hold must still be taken from the lease with
        the given id.

        Raises:
            StoreUnavailable: the leases may not be up to date; repeat the call.
        """
        read_at = self._monotonic()
        balance = await self._balances.find(organisation)
        if balance is None:
            return
        await self._release_retired(balance, in_use)
        for payer, lease in list(self._leases.items()):
            if payer.organisation == organisation:
                await self._synchronise_lease(payer, lease, balance, read_at)

    async def _release_retired(self, balance: Balance, in_use: Callable[[str], bool]) -> None:
        for id in [id for id, organisation in self._retired.items() if organisation == balance.organisation]:
            hold = balance.held.get(id)
            if in_use(id):
                continue
            if hold is None or await self._balances.release(balance.organisation, id, hold):
                del self._retired[id]

    async def _synchronise_lease(self, payer: Payer, lease: _Lease, balance: Balance, read_at: float) -> None:
        if payer not in self._leases:
            return  # retired meanwhile
        allowed, excessive = leasable(balance, payer)
        if lease.exists:
            if excessive or lease.id not in balance.held:
                self._retire([payer])
                return
            lease.confirmed_at = read_at
        elif len(balance.leases) >= MAX_LEASES:
            return
        target = lease.target(read_at)
        amount = min(target - lease.remaining, allowed)
        if 2 * lease.remaining < target and lease.remaining + amount >= lease.min_amount:
            await self._extend(payer, lease, amount, balance)

    async def _extend(self, payer: Payer, lease: _Lease, amount: int, balance: Balance) -> None:
        hold = Hold(amount, payer.month, payer.project, payer.key, lease.gateway, self._clock())
        existed, lease.exists = lease.exists, True
        try:
            extended = await self._balances.extend_lease(balance, lease.id, hold)
        except StoreUnavailable:
            self._retire([payer])  # the outcome is unknown: what the account has is released
            raise
        if extended:
            lease.remaining += amount
            lease.confirmed_at = self._monotonic()
        else:
            lease.exists = existed

    def _retire(self, payers: Iterable[Payer]) -> None:
        for payer in list(payers):
            lease = self._leases.pop(payer, None)
            if lease is not None and lease.exists:
                self._retired[lease.id] = payer.organisation


def leasable(balance: Balance, payer: Payer) -> tuple[int, bool]:
    """Return how many more nano-USD a payer may lease from an account, and whether its leases must be released.

    Leases together may take 1/`LEASE_SHARE` of the credit and of each budget; over twice that they must be released.
    """
    if not balance.is_open:
        return 0, True
    leases = balance.leases.values()
    parts = [(balance.available, sum(lease.amount for lease in leases))]
    used = balance.used.get(payer.month, {})
    for name in budget_names(payer.project, payer.key):
        if name in balance.budgets:
            leased = sum(each.amount for each in leases if each.month == payer.month and name in each.budgets)
            parts.append((balance.budgets[name] - used.get(name, 0), leased))
    shares = [(max(0, left + leased) // LEASE_SHARE, leased) for left, leased in parts]
    return max(0, min(share - leased for share, leased in shares)), any(leased > 2 * share for share, leased in shares)
