"""Credit that a gateway has set aside in advance: the holds of most requests are then a subtraction in memory.

A lease is an entry among an account's holds, for one project, key and month, so it counts against the credit and the
budgets that its jobs' holds would, and nobody else can have it. What requests take of it becomes their own holds behind
their backs (`job_writer.py`), always before they are settled. All that is in the account is as exact as without leases;
what they cost is that somebody else may be refused what lies in them, so all leases of an account together are at most
a `SHARE`th of what is there, and of what each budget has left, when they are taken; near the end there are none.

A lease is taken by who has asked twice within seconds, for about as much as he used, and is given back soon after he
has stopped. Nothing is taken of one that the account has not confirmed for `FRESH_SECONDS`: an account that was closed
or a budget that was cut count from then on, and who can't reach the store stops. Knows no MongoDB.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from auth_billing.errors import StoreUnavailable
from auth_billing.money.books import Balance, BalanceStore, Hold, JobRecord
from auth_billing.money.holds import budgets_of

SHARE = 16
"""One in so many nano-USD may be leased."""
FEWEST = 4
"""A lease is for so many requests, or it is not worth it."""
MOST_LEASES = 64
"""In one account: its document stays small."""
FRESH_SECONDS = 2.0
RECENT_SECONDS = 1.0
MOST_REMEMBERED = 1024

_NEVER = float("-inf")


@dataclass(frozen=True)
class Payer:
    """Whose credit, and which budgets it counts against."""

    organisation: str
    project: str
    key: str
    month: str

    @classmethod
    def of(cls, job: JobRecord) -> Payer:
        """Who pays for a job."""
        return cls(job.organisation, job.project, job.key, job.month)


class _Purse:
    """A payer's lease, as far as requests have not taken of it, and what they have asked for lately."""

    def __init__(self, gateway: str) -> None:
        self.gateway = gateway
        self.lease = f"lease-{secrets.token_hex(8)}"
        self.taken = False
        """Whether there is such an entry, or may be."""
        self.free = 0
        self.confirmed = _NEVER
        """When the account was last seen to allow it."""
        self._asked: deque[tuple[float, int]] = deque(maxlen=MOST_REMEMBERED)

    def ask(self, amount: int, now: float) -> None:
        """Somebody wants so much."""
        self._asked.append((now, amount))
        while now - self._asked[0][0] > FRESH_SECONDS:
            self._asked.popleft()

    @property
    def least(self) -> int:
        """What makes a lease worth it."""
        return FEWEST * sum(amount for _, amount in self._asked) // max(1, len(self._asked))

    def wanted(self, now: float) -> int:
        """As much as twice what the last second asked for, if anybody is likely to come again."""
        if len(self._asked) < 2 or self.idle(now):
            return 0
        return max(self.least, 2 * sum(amount for at, amount in self._asked if now - at <= RECENT_SECONDS))

    def idle(self, now: float) -> bool:
        """Whether nobody has asked for a while."""
        return not self._asked or now - self._asked[-1][0] > FRESH_SECONDS


class CreditLeases:
    """The leases of one gateway.

    Args:
        balances: where accounts are.
        clock: Unix seconds, for what is written.
        monotonic: seconds.
    """

    def __init__(
        self,
        balances: BalanceStore,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._balances = balances
        self._clock = clock
        self._monotonic = monotonic
        self._purses: dict[Payer, _Purse] = {}
        self._leaving: dict[str, str] = {}
        """Leases to be given back, and their organisations."""

    def take(self, jobs: Sequence[JobRecord]) -> str | None:
        """The id of the lease that the jobs of one request are paid from, all of them; `None`: ask the account."""
        needed, now = sum(job.hold for job in jobs), self._monotonic()
        payer = Payer.of(jobs[0])
        if (purse := self._purses.get(payer)) is None:
            purse = self._purses[payer] = _Purse(jobs[0].gateway)
        purse.ask(needed, now)
        if not purse.taken or purse.free < needed or now - purse.confirmed > FRESH_SECONDS:
            return None
        purse.free -= needed
        return purse.lease

    def doubt(self) -> None:
        """The store did not answer: take nothing of any lease until it has confirmed it."""
        for purse in self._purses.values():
            purse.confirmed = _NEVER

    def lost(self, lease: str) -> None:
        """The account has no such lease any more, or less than was thought."""
        self._retire(payer for payer, purse in self._purses.items() if purse.lease == lease)

    def retire(self, organisation: str) -> bool:
        """Take nothing more of any lease of an organisation; whether there are some for `settle_up` to give back."""
        self._retire(payer for payer in self._purses if payer.organisation == organisation)
        return organisation in self.leaving

    def retire_idle(self) -> None:
        """The same of all leases that nobody has asked for in a while."""
        now = self._monotonic()
        self._retire(payer for payer, purse in self._purses.items() if purse.idle(now))

    def retire_all(self) -> None:
        """The same of all leases."""
        self._retire(self._purses)

    @property
    def leaving(self) -> Collection[str]:
        """The organisations of leases that are to be given back."""
        return set(self._leaving.values())

    async def settle_up(self, organisation: str, busy: Callable[[str], bool]) -> None:
        """Look at an account: confirm leases, have them grow, give back those that were retired.

        `busy`: whether a job's hold is still to be taken from a lease.

        Raises:
            StoreUnavailable: to be done again.
        """
        seen_at = self._monotonic()
        balance = await self._balances.find(organisation)
        if balance is None:
            return
        await self._give_back(balance, busy)
        for payer, purse in list(self._purses.items()):
            if payer.organisation == organisation:
                await self._tend(payer, purse, balance, seen_at)

    async def _give_back(self, balance: Balance, busy: Callable[[str], bool]) -> None:
        for lease in [lease for lease, organisation in self._leaving.items() if organisation == balance.organisation]:
            there = balance.held.get(lease)
            if busy(lease):
                continue
            if there is None or await self._balances.release(balance.organisation, lease, there):
                del self._leaving[lease]

    async def _tend(self, payer: Payer, purse: _Purse, balance: Balance, seen_at: float) -> None:
        if payer not in self._purses:
            return  # retired meanwhile
        more, excessive = room(balance, payer)
        if purse.taken:
            if excessive or purse.lease not in balance.held:
                self._retire([payer])
                return
            purse.confirmed = seen_at
        elif len(balance.leases) >= MOST_LEASES:
            return
        wanted = purse.wanted(seen_at)
        amount = min(wanted - purse.free, more)
        if 2 * purse.free < wanted and purse.free + amount >= purse.least:
            await self._grow(payer, purse, amount, balance)

    async def _grow(self, payer: Payer, purse: _Purse, amount: int, balance: Balance) -> None:
        lease = Hold(amount, payer.month, payer.project, payer.key, purse.gateway, self._clock())
        there, purse.taken = purse.taken, True
        try:
            grown = await self._balances.lease(balance, purse.lease, lease)
        except StoreUnavailable:
            self._retire([payer])  # it may have grown: whatever is there is given back
            raise
        if grown:
            purse.free += amount
            purse.confirmed = self._monotonic()
        else:
            purse.taken = there

    def _retire(self, payers: Iterable[Payer]) -> None:
        for payer in list(payers):
            purse = self._purses.pop(payer, None)
            if purse is not None and purse.taken:
                self._leaving[purse.lease] = payer.organisation


def room(balance: Balance, payer: Payer) -> tuple[int, bool]:
    """How much more of an account may be leased for a payer, and whether all leases are far too much by now."""
    if not balance.is_open:
        return 0, True
    leases = balance.leases.values()
    parts = [(balance.available, sum(lease.amount for lease in leases))]
    used = balance.used.get(payer.month, {})
    for name in budgets_of(payer.project, payer.key):
        if name in balance.budgets:
            of_it = sum(each.amount for each in leases if each.month == payer.month and name in each.budgets)
            parts.append((balance.budgets[name] - used.get(name, 0), of_it))
    shares = [(max(0, left + leased) // SHARE, leased) for left, leased in parts]
    return max(0, min(share - leased for share, leased in shares)), any(leased > 2 * share for share, leased in shares)
