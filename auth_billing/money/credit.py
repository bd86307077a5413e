"""Changes the credit of organisations: top-ups, promotional credit, refunds, withdrawals. Amounts are integer nano-USD.

An organisation's credit entries are numbered, and are applied to its account in order. An entry is valid once it is in
the ledger, under an id derived from the caller's reference. It is then applied to the account, by a later process if
the writer dies in between. So a repeated payment webhook, now or in a year, moves money once, and concurrent refunds of
a job cannot exceed its cost.

A withdrawal takes available credit, which requests may hold at the same time. So the account comes first: one update
takes the amount if it is available and keeps the entry, which is then posted to the ledger, by a later process if the
writer dies in between. Withdrawals have numbers of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from auth_billing.errors import (
    CreditNotAvailable,
    NoSuchCharge,
    ReferenceReused,
    RefundTooLarge,
    StoreUnavailable,
    TooMuchCredit,
    UnacceptableReference,
    UnacceptableValue,
)
from auth_billing.money.amounts import check_amount, format_usd
from auth_billing.money.billing_records import JobState, JobStore

MAX_CREDIT = 8 * 10**18
"""The most that an organisation can be credited in all, in nano-USD: what the store's 64 bits hold."""
MAX_REFERENCE_LENGTH = 128
MAX_REASON_LENGTH = 300
MAX_TRIES = 50
"""Most tries of an insertion that fails only because another process added an entry first."""


class CreditKind(StrEnum):
    """Kind of a ledger entry that changes an organisation's credit, other than by the cost of jobs."""

    TOP_UP = "topup"
    """A payment."""
    PROMO = "promo"
    """Promotional credit."""
    REFUND = "refund"
    """The cost of a settled job, or a part of it."""
    WITHDRAWAL = "withdrawal"
    """Unspent credit that the operator takes back."""


@dataclass(frozen=True)
class CreditEntry:
    """A ledger entry that credits an organisation, or withdraws credit.

    `number`s begin at 1 and have no gaps; an organisation's withdrawals have a sequence of their own. `reference` is
    the caller's id of the transaction, e.g. a payment's id; `job` is set for refunds only.
    """

    organisation: str
    number: int
    kind: CreditKind
    reference: str
    amount: int
    at: float
    job: str | None = None
    reason: str = ""
    """For people: why the operator gave or took the credit."""

    @property
    def id(self) -> str:
        """Id of the ledger entry, made of organisation, kind and reference: the same for a repeated transaction."""
        return f"{self.organisation}:{self.kind}:{self.reference}"


@dataclass(frozen=True)
class WithdrawalState:
    """The withdrawals of an account: their `count`, and the credit that is `available` for the next (nano-USD)."""

    count: int
    available: int
    unposted: CreditEntry | None
    """The last withdrawal, if the ledger may not have it yet."""


class CreditStore(Protocol):
    """Store of credit entries and of the accounts that they apply to.

    Every method may raise `StoreUnavailable`, and may be repeated.
    """

    async def applied(self, organisation: str) -> tuple[int, int]:
        """Return how many credit entries were applied to an account, and their sum (nano-USD); create it if missing."""
        ...

    async def find(self, id: str) -> CreditEntry | None:
        """Return the credit entry (top-up, promotion, refund, withdrawal) with this id, or `None` if there is none."""
        ...

    async def find_numbered(self, organisation: str, number: int) -> CreditEntry | None:
        """Return the organisation's credit entry with this sequence number, or `None` if there is none."""
        ...

    async def newest(self, organisation: str, limit: int) -> Sequence[CreditEntry]:
        """Return up to `limit` credit entries and withdrawals of an organisation, newest first."""
        ...

    async def refunded(self, organisation: str, job: str) -> int:
        """Return the sum of an organisation's refunds of a job in nano-USD, 0 if there are none."""
        ...

    async def append(self, entry: CreditEntry) -> bool:
        """Append a credit entry to the ledger durably; return false if an entry with its id or its number is stored."""
        ...

    async def apply(self, entry: CreditEntry) -> None:
        """Add a credit entry's amount to its account, in one update, if its number is next; else change nothing."""
        ...

    async def credited_since(self, at: float) -> Sequence[str]:
        """Return the ids of the organisations that have credit entries made since `at` (Unix seconds)."""
        ...

    async def withdrawal_state(self, organisation: str) -> WithdrawalState:
        """Return how many withdrawals an existing account has, and the credit available for the next."""
        ...

    async def withdraw(self, entry: CreditEntry) -> bool:
        """Take a withdrawal's amount out of available credit and keep its entry in the account, in one update.

        The entry stays there until it is posted to the ledger. Return false, with nothing changed, if less is
        available, `entry.number` is not the next one, or the last withdrawal is not posted.
        """
        ...

    async def post_withdrawal(self, entry: CreditEntry) -> None:
        """Append a withdrawal that `withdraw` took to the ledger, once, and mark it in the account as posted."""
        ...

    async def unposted_withdrawals(self) -> Sequence[CreditEntry]:
        """Return the withdrawals of all organisations that accounts have and that the ledger may not have yet."""
        ...


class Credit:
    """Credits organisations (top-ups, promotional credit, refunds), and withdraws unspent credit.

    Args:
        store: credit entries and accounts.
        jobs: settled jobs, which refunds are checked against.
        clock: Unix seconds.
    """

    def __init__(self, store: CreditStore, jobs: JobStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._jobs = jobs
        self._clock = clock

    async def top_up(self, organisation: str, amount: int, reference: str, reason: str = "") -> CreditEntry:
        """Credit a payment of `amount` nano-USD to an organisation, and return its ledger entry.

        A repeated call with the same reference (the caller's id of the payment) changes nothing and returns the first
        entry.

        Raises:
            UnacceptableAmount: `amount` is not a positive integer, or too large.
            UnacceptableReference: `reference` is not 1 to 128 printable ASCII characters.
            UnacceptableValue: `reason` is too long, or has control characters.
            TooMuchCredit: the organisation's credit would exceed `MAX_CREDIT`.
            ReferenceReused: the reference was used for another amount.
            StoreUnavailable: the outcome is unknown; repeat the call.
        """
        return await self._credit(organisation, CreditKind.TOP_UP, amount, reference, reason=reason)

    async def promo(self, organisation: str, amount: int, reference: str, reason: str = "") -> CreditEntry:
        """Grant an organisation promotional credit of `amount` nano-USD, and return the ledger entry.

        A repeated call with the same reference changes nothing and returns the first entry.

        Raises:
            CreditError, UnacceptableValue, StoreUnavailable: the errors of `top_up`.
        """
        return await self._credit(organisation, CreditKind.PROMO, amount, reference, reason=reason)

    async def withdraw(self, organisation: str, amount: int, reference: str, reason: str = "") -> CreditEntry:
        """Take `amount` nano-USD of unspent credit from an open or closed account; return the ledger entry.

        A repeated call with the same reference changes nothing and returns the first entry.

        Raises:
            CreditNotAvailable: less is available; what is held for running requests stays.
            CreditError, UnacceptableValue, StoreUnavailable: the errors of `top_up`, except `TooMuchCredit`.
        """
        check_amount(amount)
        _check_reference(reference)
        _check_reason(reason)
        for _ in range(MAX_TRIES):
            await self.apply_pending(organisation)
            state = await self._store.withdrawal_state(organisation)
            if state.unposted is not None:
                await self._store.post_withdrawal(state.unposted)
            kind = CreditKind.WITHDRAWAL
            entry = CreditEntry(organisation, state.count + 1, kind, reference, amount, self._clock(), reason=reason)
            if (there := await self._store.find(entry.id)) is not None:
                return _repeated(there, entry)
            if state.available < amount:
                raise CreditNotAvailable(f"{format_usd(state.available)} USD are available")
            if await self._store.withdraw(entry):
                await self._store.post_withdrawal(entry)
                return entry
        raise StoreUnavailable("the account keeps being changed")

    async def refund(self, organisation: str, job: str, amount: int, reference: str) -> CreditEntry:
        """Refund `amount` nano-USD of the cost of an organisation's settled job `job`; return the ledger entry.

        A repeated call with the same reference changes nothing and returns the first entry.

        Raises:
            NoSuchCharge: the organisation has no settled job with this id.
            RefundTooLarge: more than the part of the cost that was not refunded yet.
            CreditError, StoreUnavailable: the errors of `top_up`.
        """
        return await self._credit(organisation, CreditKind.REFUND, amount, reference, job=job)

    async def newest(self, organisation: str, limit: int = 20) -> Sequence[CreditEntry]:
        """Return up to `limit` credit entries and withdrawals of an organisation, newest first.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        return await self._store.newest(organisation, limit)

    async def apply_pending(self, organisation: str) -> tuple[int, int]:
        """Add to an organisation's account all credit entries that only the ledger has, such as after a crash.

        Return the number and the sum (nano-USD) of all entries that the account has then, earlier ones included.

        Raises:
            StoreUnavailable: some may be applied; repeat the call.
        """
        while True:
            number, total = await self._store.applied(organisation)
            entry = await self._store.find_numbered(organisation, number + 1)
            if entry is None:
                return number, total
            await self._store.apply(entry)

    async def apply_pending_since(self, since: float) -> None:
        """Complete interrupted changes of credit in all organisations.

        Calls `apply_pending` for each that has credit entries made since `since` (Unix seconds), and posts to the
        ledger the withdrawals that only accounts have.

        Raises:
            StoreUnavailable: some may be completed; repeat the call.
        """
        for organisation in await self._store.credited_since(since):
            await self.apply_pending(organisation)
        for entry in await self._store.unposted_withdrawals():
            await self._store.post_withdrawal(entry)

    async def _credit(
        self,
        organisation: str,
        kind: CreditKind,
        amount: int,
        reference: str,
        *,
        job: str | None = None,
        reason: str = "",
    ) -> CreditEntry:
        check_amount(amount)
        _check_reference(reference)
        _check_reason(reason)
        for _ in range(MAX_TRIES):
            number, total = await self.apply_pending(organisation)
            entry = CreditEntry(organisation, number + 1, kind, reference, amount, self._clock(), job, reason)
            if (there := await self._store.find(entry.id)) is not None:
                await self.apply_pending(organisation)  # it may have been appended by another process just now
                return _repeated(there, entry)
            if total + amount > MAX_CREDIT:
                raise TooMuchCredit("an organisation can't have had so much credit")
            if job is not None:
                await self._check_refund(entry, job)
            # If the number is still free, the checks above are still true: every change of credit takes a number.
            if await self._store.append(entry):
                await self._store.apply(entry)
                return entry
        raise StoreUnavailable("the account keeps being credited")

    async def _check_refund(self, entry: CreditEntry, job: str) -> None:
        charge = (await self._jobs.find([job])).get(job)
        if charge is None or charge.organisation != entry.organisation or charge.state is not JobState.SETTLED:
            raise NoSuchCharge(f"no job {job!r} was charged to {entry.organisation!r}")
        left = (charge.cost or 0) - await self._store.refunded(entry.organisation, job)
        if entry.amount > left:
            raise RefundTooLarge(f"of what job {job!r} cost, {format_usd(left)} USD can be paid back")


def _repeated(there: CreditEntry, entry: CreditEntry) -> CreditEntry:
    if (there.amount, there.job) != (entry.amount, entry.job):
        raise ReferenceReused(f"the reference {entry.reference!r} was used for another {entry.kind}")
    return there


def _check_reason(reason: str) -> None:
    if len(reason) > MAX_REASON_LENGTH or not reason.isprintable():
        raise UnacceptableValue("reason", f"a reason has at most {MAX_REASON_LENGTH} characters, in one line")


def _check_reference(reference: str) -> None:
    if not (0 < len(reference) <= MAX_REFERENCE_LENGTH and reference.isascii() and reference.isprintable()):
        raise UnacceptableReference(f"a reference has 1 to {MAX_REFERENCE_LENGTH} printable ASCII characters")
