"""Credit of organisations: what is paid in, given, and paid back for a job. What is spent is `settlement.py`'s.

An organisation's entries are numbered, and its account takes them in one after the other: an entry *is* when its row
is in the ledger, under an id that follows from the caller's reference; the account follows, by whoever comes next if
the writer has died in between. So a webhook that is repeated, at once or in a year, moves money once, and two refunds
of one job know of each other. Amounts are integer nano-USD. Knows no HTTP, no roles and no MongoDB.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from auth_billing.errors import (
    NoSuchCharge,
    ReferenceReused,
    RefundTooLarge,
    StoreUnavailable,
    TooMuchCredit,
    UnacceptableReference,
)
from auth_billing.money.amounts import check_amount, usd
from auth_billing.money.books import JobState, JobStore

MOST_CREDIT = 8 * 10**18
"""Nano-USD that an organisation may ever have been credited: what the store's 64 bits hold."""
LONGEST_REFERENCE = 128
TRIES = 50
"""Of something that only fails because somebody else has just succeeded."""


class CreditKind(StrEnum):
    """Why an organisation has more credit."""

    TOP_UP = "topup"
    """It paid."""
    PROMO = "promo"
    """It was given some."""
    REFUND = "refund"
    """It gets back what a job cost, or a part of that."""


@dataclass(frozen=True)
class CreditEntry:
    """A row of the ledger that increases an organisation's credit. `number`s begin at 1 and have no gaps.

    `reference` is the caller's own name for it: a payment's id, say. `job` is there for refunds only.
    """

    organisation: str
    number: int
    kind: CreditKind
    reference: str
    amount: int
    at: float
    job: str | None = None

    @property
    def id(self) -> str:
        """Of the ledger's row: the same for the same reference."""
        return f"{self.organisation}:{self.kind}:{self.reference}"


class CreditStore(Protocol):
    """Where entries and accounts are. Every method may raise `StoreUnavailable`; each may be repeated."""

    async def open(self, organisation: str) -> tuple[int, int]:
        """How many entries the account has taken in, and their sum; a new organisation's account is made."""
        ...

    async def find(self, id: str) -> CreditEntry | None:
        """An entry by its id."""
        ...

    async def numbered(self, organisation: str, number: int) -> CreditEntry | None:
        """An entry by its number."""
        ...

    async def newest(self, organisation: str, limit: int) -> Sequence[CreditEntry]:
        """Some entries, the latest first."""
        ...

    async def refunded(self, organisation: str, job: str) -> int:
        """What was paid back for a job."""
        ...

    async def append(self, entry: CreditEntry) -> bool:
        """Store an entry, durably; false if there is one with its id or its number."""
        ...

    async def take_in(self, entry: CreditEntry) -> None:
        """Add an entry to its account if that has taken in all before it, and not this one."""
        ...

    async def credited_since(self, at: float) -> Sequence[str]:
        """The organisations that have entries since a time."""
        ...


class Credit:
    """Moves money into accounts.

    Args:
        store: entries and accounts.
        jobs: what was charged.
        clock: Unix seconds.
    """

    def __init__(self, store: CreditStore, jobs: JobStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._jobs = jobs
        self._clock = clock

    async def top_up(self, organisation: str, amount: int, reference: str) -> CreditEntry:
        """What an organisation has paid. The second call with a reference returns the entry of the first.

        Raises:
            UnacceptableAmount, UnacceptableReference, TooMuchCredit
            ReferenceReused: the reference was used for another amount.
            StoreUnavailable: it is not known whether it counts; to be called again.
        """
        return await self._enter(organisation, CreditKind.TOP_UP, amount, reference)

    async def promo(self, organisation: str, amount: int, reference: str) -> CreditEntry:
        """What an organisation is given. Raises as `top_up`."""
        return await self._enter(organisation, CreditKind.PROMO, amount, reference)

    async def refund(self, organisation: str, job: str, amount: int, reference: str) -> CreditEntry:
        """Pay back what a job cost its organisation, or a part. Raises as `top_up`, and:

        NoSuchCharge: the organisation has no such job, or it is not settled, or was free.
        RefundTooLarge: more than what the job cost and was not paid back yet.
        """
        return await self._enter(organisation, CreditKind.REFUND, amount, reference, job)

    async def newest(self, organisation: str, limit: int = 20) -> Sequence[CreditEntry]:
        """Some entries, the latest first."""
        return await self._store.newest(organisation, limit)

    async def catch_up(self, organisation: str) -> tuple[int, int]:
        """Take in what somebody has entered and not finished; how many entries the account has then, and their sum."""
        while True:
            number, total = await self._store.open(organisation)
            entry = await self._store.numbered(organisation, number + 1)
            if entry is None:
                return number, total
            await self._store.take_in(entry)

    async def catch_up_all(self, since: float) -> None:
        """Take in what was entered since a time and not finished, of all organisations."""
        for organisation in await self._store.credited_since(since):
            await self.catch_up(organisation)

    async def _enter(
        self, organisation: str, kind: CreditKind, amount: int, reference: str, job: str | None = None
    ) -> CreditEntry:
        check_amount(amount)
        _check_reference(reference)
        for _ in range(TRIES):
            number, total = await self.catch_up(organisation)
            entry = CreditEntry(organisation, number + 1, kind, reference, amount, self._clock(), job)
            if (there := await self._store.find(entry.id)) is not None:
                if (there.amount, there.job) != (amount, job):
                    raise ReferenceReused(f"the reference {reference!r} was used for another {kind}")
                await self.catch_up(organisation)  # it may have been entered only just now
                return there
            if total + amount > MOST_CREDIT:
                raise TooMuchCredit("an organisation can't have had so much credit")
            if job is not None:
                await self._check_refund(entry, job)
            # Whatever was looked at is still so if the number is still free: all that changes it takes a number.
            if await self._store.append(entry):
                await self._store.take_in(entry)
                return entry
        raise StoreUnavailable("an account is credited all the time")

    async def _check_refund(self, entry: CreditEntry, job: str) -> None:
        charge = (await self._jobs.find([job])).get(job)
        if charge is None or charge.organisation != entry.organisation or charge.state is not JobState.SETTLED:
            raise NoSuchCharge(f"no job {job!r} was charged to {entry.organisation!r}")
        left = (charge.cost or 0) - await self._store.refunded(entry.organisation, job)
        if entry.amount > left:
            raise RefundTooLarge(f"of what job {job!r} cost, {usd(left)} USD can be paid back")


def _check_reference(reference: str) -> None:
    if not (0 < len(reference) <= LONGEST_REFERENCE and reference.isascii() and reference.isprintable()):
        raise UnacceptableReference(f"a reference has 1 to {LONGEST_REFERENCE} printable ASCII characters")
