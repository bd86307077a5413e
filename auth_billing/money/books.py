"""What is stored of money, and the ports to where it is stored. Knows no MongoDB: `store/` implements the ports.

All amounts are integer nano-USD, all times Unix seconds. The documents behind each record are described in `store/`.
Each method of a port raises `StoreUnavailable` when the store does not answer in time: the outcome of a write is
then unknown, and it is done again. Each write may be.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from auth_billing.money.holds import budgets_of
from auth_billing.prices.pricing import Price
from router.messages import Outcome, ServiceClass, Usage


class JobState(StrEnum):
    """Where a job's money is. It only ever moves forward."""

    HELD = "held"
    """Its hold is in the account; it may run."""
    SETTLING = "settling"
    """What it cost is written and will not change; the account and the ledger may not know yet."""
    SETTLED = "settled"
    """Account and ledger know."""


class Source(StrEnum):
    """Whose word a job was settled to."""

    RECEIPT = "receipt"
    """The gateway's, on what its client got."""
    VOID = "void"
    """The gateway's: it was never queued."""
    SWEPT = "swept"
    """Nobody's: the lesser of the worker's usage record and the gateway's last checkpoint."""


@dataclass(frozen=True)
class Word:
    """What somebody says of a job: what it used that counts, and how it ended."""

    usage: Usage
    outcome: Outcome
    source: Source


@dataclass(frozen=True)
class Final(Word):
    """The word that a job was settled to, and when."""

    at: float

    def agrees(self, other: Word) -> bool:
        """Whether both say the same, whoever says it."""
        return (self.usage, self.outcome) == (other.usage, other.outcome)


@dataclass(frozen=True)
class JobRecord:
    """A job as the books have it. `cost` and `final` are there from `SETTLING` on, written once, together."""

    id: str
    organisation: str
    project: str
    key: str
    user: str
    model: str
    service_class: ServiceClass
    gateway: str
    created: float
    deadline: float
    month: str
    """The month whose budgets it counts against: the one in which it was accepted, whenever it is settled."""
    price: Price
    hold: int
    state: JobState = JobState.HELD
    checkpoint: Usage | None = None
    """What its gateway last said that the client had got."""
    cost: int | None = None
    final: Final | None = None

    @property
    def budgets(self) -> tuple[str, ...]:
        """The budgets that it counts against, by name."""
        return tuple(budgets_of(self.project, self.key))


@dataclass(frozen=True)
class Charge:
    """The cost of a job that is settled now; at most its hold."""

    job: JobRecord
    cost: int
    final: Final

    @property
    def charged(self) -> JobRecord:
        """The job with it."""
        return replace(self.job, state=JobState.SETTLING, cost=self.cost, final=self.final)


@dataclass(frozen=True)
class Hold:
    """An entry of an account's open holds: enough to release it when its job's document is lost.

    One with a `gateway` is no job's: a lease, credit that this gateway may turn into holds (`credit_leases.py`).
    """

    amount: int
    month: str
    project: str
    key: str
    gateway: str = ""
    at: float = 0.0
    """When a lease was last taken or grew (Unix seconds)."""

    @property
    def budgets(self) -> tuple[str, ...]:
        """The budgets that it counts against, by name."""
        return tuple(budgets_of(self.project, self.key))


@dataclass(frozen=True)
class Balance:
    """An organisation's account. Of what was paid in, `available` can be held, `spent` is gone, the rest is held."""

    organisation: str
    available: int
    spent: int
    held: Mapping[str, Hold] = field(default_factory=dict)
    """By job, or by lease."""
    budgets: Mapping[str, int] = field(default_factory=dict)
    """Most that may be used in a month, by the budget's name (`holds.budgets_of`)."""
    used: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Held and spent, by month and budget; also where there is no budget, so that one can be set at any time."""
    is_open: bool = True
    version: int = 0
    credits: int = 0
    """Entries of credit that it has taken in (`credit.py`)."""
    credited: int = 0
    """Their sum: always available, held and spent together."""

    @property
    def leases(self) -> Mapping[str, Hold]:
        """Those of `held` that are no job's but gateways'."""
        return {id: hold for id, hold in self.held.items() if hold.gateway}


@dataclass(frozen=True)
class Posting:
    """A transaction of the ledger: `amount` moves from one account to another, so the sum is always zero.

    Accounts: `customer:<organisation>`, `revenue`, `promo`, `refunds`, `rounding`, `cash`.
    """

    id: str
    """Follows from what is posted, so that posting it twice is posting it once."""
    organisation: str
    debit: str
    credit: str
    amount: int
    kind: str
    at: float
    job: str | None = None
    usage: Usage | None = None
    price_version: int | None = None


class BalanceStore(Protocol):
    """Where accounts are: one document each, so that one conditional update decides."""

    async def open(self, organisation: str) -> None:
        """Make an account with nothing in it unless there is one."""
        ...

    async def find(self, organisation: str) -> Balance | None:
        """The account of an organisation."""
        ...

    async def with_holds(self) -> Sequence[Balance]:
        """All accounts that have open holds."""
        ...

    async def hold(self, jobs: Sequence[JobRecord], budgets: Mapping[str, int]) -> bool:
        """Set the jobs' holds aside, all or none; false if the account does not allow it (or has them already).

        Or if its budgets are not `budgets`: what the caller takes them for.

        The jobs are of one organisation, project, key and month. Not journaled.
        """
        ...

    async def hold_again(self, job: JobRecord, version: int) -> bool:
        """Put back a hold that a crash of the store has lost; false if the account has changed since `version`."""
        ...

    async def lease(self, seen: Balance, id: str, lease: Hold) -> bool:
        """Set `lease.amount` more aside for a gateway, onto the lease with this id if `seen` has it. Not journaled.

        False if the account does not allow it, or has other budgets, or the lease is not there any more.
        """
        ...

    async def hand_over(self, organisation: str, jobs: Mapping[str, Sequence[JobRecord]]) -> bool:
        """Turn parts of leases, by their ids, into the holds of jobs, all or none.

        False if a lease has less than that, or a job is held already. Each job has its lease's project, key and month.
        Not journaled.
        """
        ...

    async def settle(self, charges: Sequence[Charge]) -> bool:
        """Turn holds into costs, all or none; false if one of them is not held. The jobs are of one organisation."""
        ...

    async def release(self, organisation: str, id: str, hold: Hold) -> bool:
        """Give back a hold that no job needs, or a lease; false if it is not there with this amount."""
        ...

    async def forget_months(self, organisation: str, months: Collection[str]) -> None:
        """Forget what was used in months whose jobs are settled long since."""
        ...

    async def set_open(self, organisation: str, *, to: bool) -> bool:
        """Take no more holds, or take them again; open ones are settled as ever. False if there is no such account."""
        ...


class JobStore(Protocol):
    """Where jobs are."""

    async def insert(self, jobs: Sequence[JobRecord]) -> None:
        """Store new jobs; those that are there already stay as they are."""
        ...

    async def find(self, jobs: Collection[str]) -> Mapping[str, JobRecord]:
        """Those of the jobs that are known, by id."""
        ...

    async def checkpoint(self, usage: Mapping[str, Usage]) -> None:
        """Note what clients have got, of jobs that are `HELD`; a checkpoint never goes back. Not journaled."""
        ...

    async def charge(self, charges: Sequence[Charge]) -> bool:
        """`HELD` to `SETTLING`, with cost and final written; other states stay. Whether all were `HELD`."""
        ...

    async def finish(self, jobs: Collection[str]) -> None:
        """`SETTLING` to `SETTLED`."""
        ...

    async def settling_since(self, before: float, limit: int) -> Sequence[JobRecord]:
        """Jobs that have been `SETTLING` since a time before `before`, and should be done by now."""
        ...

    async def held(self, limit: int) -> Sequence[JobRecord]:
        """Jobs that are `HELD`, those of the earliest deadlines first."""
        ...

    async def held_by(self, gateways: Collection[str], limit: int) -> Sequence[JobRecord]:
        """Jobs of these gateways that are `HELD`."""
        ...

    async def gateways(self) -> Collection[str]:
        """The gateways of jobs that are `HELD`."""
        ...


class LedgerStore(Protocol):
    """Where postings are: never changed once written."""

    async def post(self, postings: Sequence[Posting]) -> None:
        """Store those that are not there yet."""
        ...


class LeaseStore(Protocol):
    """Where gateways say that they are alive."""

    async def beat(self, gateway: str) -> None:
        """Say it once more. Not journaled."""
        ...

    async def beats(self) -> Mapping[str, int]:
        """How often each gateway has said so; one that is not there never has."""
        ...


@dataclass(frozen=True)
class Books:
    """All that is stored of money."""

    balances: BalanceStore
    jobs: JobStore
    ledger: LedgerStore
    leases: LeaseStore
