"""Defines billing's records (jobs, holds, accounts, ledger entries) and the interfaces of the stores that keep them.

Amounts are integer nano-USD, times Unix seconds. `auth_billing/store/` implements the ports, and describes the stored
documents. Every method of a port raises `StoreUnavailable` if the store does not answer in time. The outcome of a write
is then unknown, and the caller repeats it: every write may be repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from auth_billing.money.holds import budget_names
from auth_billing.prices.pricing import Price
from router.messages import Outcome, ReportedUsage, ServiceClass, Usage, UsagePart
from router.usage_arithmetic import JobUsage


class JobState(StrEnum):
    """How far a job's settlement is. A job only moves forward through these states."""

    HELD = "held"
    """The job's hold is in the account; the job may run."""
    SETTLING = "settling"
    """The job's cost is written and final; the account and the ledger may not have it yet."""
    SETTLED = "settled"
    """The job, the account and the ledger agree."""


class SettlementSource(StrEnum):
    """Which process stated the usage that a job was settled to."""

    RECEIPT = "receipt"
    """The gateway, by a receipt of what its client got."""
    VOID = "void"
    """The gateway: the job was never queued."""
    SWEPT = "swept"
    """The sweeper: the lesser of the worker's usage record and the gateway's last checkpoint."""


@dataclass(frozen=True)
class UsageStatement:
    """A statement about a job, on which a settlement can be based: the usage to pay for, and how the job ended."""

    usage: Usage
    """The usage of the answer, priced as the job's model."""
    outcome: Outcome
    source: SettlementSource
    _: KW_ONLY
    parts: tuple[UsagePart, ...] = ()
    """The usage of the steps, one part for each model, priced as that model."""
    reported: ReportedUsage | None = None
    """What the worker reported in its replies; `None` if the job did not finish."""


@dataclass(frozen=True)
class FinalUsage(UsageStatement):
    """The statement that a job was settled to, with the time of the settlement (`at`, Unix seconds)."""

    at: float
    _: KW_ONLY
    part_costs: tuple[int, ...] = ()
    """What each of `parts` cost, in nano-USD: the rest of the job's cost is that of the answer."""

    def agrees(self, other: UsageStatement) -> bool:
        """Return whether `other` states the same usage and outcome of the job; the sources may differ."""
        return (self.usage, self.parts, self.outcome) == (other.usage, other.parts, other.outcome)


@dataclass(frozen=True)
class JobRecord:
    """A job as billing stores it. `cost` and `final` are written together, once, with the state `SETTLING`."""

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
    """The month whose budgets the job counts against: the month of its acceptance, even if it is settled later."""
    price: Price
    hold: int
    state: JobState = JobState.HELD
    part_prices: Mapping[str, Price] = field(default_factory=dict)
    """The prices at acceptance of the models that the job's steps may use, by model."""
    checkpoint: JobUsage | None = None
    """The usage that the job's gateway last reported as delivered to the client."""
    idempotency: str = ""
    """Id of the record of the request's idempotency key, with which the receipt of the job is stored."""
    cost: int | None = None
    final: FinalUsage | None = None

    @property
    def budgets(self) -> tuple[str, ...]:
        """The names of the budgets that the job's hold and cost count against (`holds.budget_names`)."""
        return tuple(budget_names(self.project, self.key))

    def cost_of(self, used: JobUsage) -> int:
        """Return the cost of `used` in nano-USD, not limited by the job's hold.

        The answer is at the job's price, each part (a step's usage) at that of the part's model.
        """
        return self.price.cost(used.answer) + sum(map(self._part_cost, used.parts))

    def shares(self, used: JobUsage) -> tuple[int, tuple[int, ...]]:
        """Return the shares of the charge for `used` (nano-USD): the answer's, and each part's (a step's) in order.

        Together the shares are at most the job's hold: of a higher cost, the last parts are charged less.
        """
        left, charged = self.hold, []
        for cost in (self.price.cost(used.answer), *map(self._part_cost, used.parts)):
            charged.append(min(cost, left))
            left -= charged[-1]
        return charged[0], tuple(charged[1:])

    def _part_cost(self, part: UsagePart) -> int:
        price = self.part_prices.get(part.model)
        return 0 if price is None else price.cost(part.usage)


@dataclass(frozen=True)
class Charge:
    """The cost of a job that is being settled, in nano-USD and at most the job's hold."""

    job: JobRecord
    cost: int
    final: FinalUsage

    @property
    def charged(self) -> JobRecord:
        """A copy of the job's record in the state `SETTLING`, with this cost and final usage."""
        return replace(self.job, state=JobState.SETTLING, cost=self.cost, final=self.final)


@dataclass(frozen=True)
class Hold:
    """An open hold of an account, detailed enough to release the hold if its job's document is lost.

    With a `gateway` it is a credit lease: credit that this gateway may turn into jobs' holds (`credit_leases.py`).
    """

    amount: int
    month: str
    project: str
    key: str
    gateway: str = ""
    at: float = 0.0
    """When a lease was taken or last extended (Unix seconds)."""

    @property
    def budgets(self) -> tuple[str, ...]:
        """The names of the budgets that the hold counts against (`holds.budget_names`)."""
        return tuple(budget_names(self.project, self.key))


@dataclass(frozen=True)
class Balance:
    """An organisation's account (nano-USD): credit that is `available` for holds, held, or `spent`."""

    organisation: str
    available: int
    spent: int
    held: Mapping[str, Hold] = field(default_factory=dict)
    """Open holds by job id, and credit leases by lease id."""
    budgets: Mapping[str, int] = field(default_factory=dict)
    """Monthly limits in nano-USD, by the budget's name (`holds.budget_names`)."""
    used: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Held and spent nano-USD by month and budget name; counted without a limit too, so that one can be set later."""
    is_open: bool = True
    version: int = 0
    credits: int = 0
    """How many credit entries were applied to the account (`credit.py`)."""
    credited: int = 0
    """The sum of the applied credit entries in nano-USD: always available, held, spent and withdrawn together."""
    withdrawn: int = 0
    """The sum of all withdrawals of unspent credit in nano-USD."""

    @property
    def total_held(self) -> int:
        """The sum of the open holds and credit leases in nano-USD."""
        return sum(hold.amount for hold in self.held.values())

    @property
    def leases(self) -> Mapping[str, Hold]:
        """The gateways' credit leases among the open holds, by lease id."""
        return {id: hold for id, hold in self.held.items() if hold.gateway}


@dataclass(frozen=True)
class LedgerEntry:
    """A transaction of the ledger: `amount` nano-USD move from the account `debit` to the account `credit`.

    Accounts: `customer:<organisation>`, `revenue`, `promo`, `refunds`, `withdrawals`, `rounding`, `cash`.
    """

    id: str
    """Derived from the transaction, so that posting an entry again has no effect."""
    organisation: str
    debit: str
    credit: str
    amount: int
    kind: str
    at: float
    job: str | None = None
    usage: Usage | None = None
    price_version: int | None = None
    parts: tuple[UsagePart, ...] = ()


class BalanceStore(Protocol):
    """Store of accounts. One document per account, so that a single conditional update is atomic."""

    async def create(self, organisation: str) -> None:
        """Create an empty credit account for an organisation, unless the organisation has one."""
        ...

    async def find(self, organisation: str) -> Balance | None:
        """Return an organisation's credit account, or `None` if the organisation has none."""
        ...

    async def with_holds(self) -> Sequence[Balance]:
        """Return the credit accounts of all organisations that have at least one open hold or credit lease."""
        ...

    async def hold(self, jobs: Sequence[JobRecord], budgets: Mapping[str, int]) -> bool:
        """Take the jobs' holds (nano-USD) out of the account's available credit, in one update, all or none.

        Return false, with nothing changed, if the account is closed, has too little credit or budget, holds one of the
        jobs already, or has other budgets than `budgets`. The jobs are of one payer. Not journaled.
        """
        ...

    async def restore_hold(self, job: JobRecord, version: int) -> bool:
        """Restore the hold of a job, which a crash of the store lost, so that the job can be settled.

        Return false, with nothing changed, if the account's version is not `version` any more.
        """
        ...

    async def extend_lease(self, seen: Balance, id: str, lease: Hold) -> bool:
        """Move `lease.amount` (nano-USD) from the account's available credit to the lease `id`, in one update.

        Create the lease if `seen` does not have it. Return false, with nothing changed, if the account does not allow
        it, has other budgets than `seen`, or the lease was created or released after `seen`. Not journaled.
        """
        ...

    async def hold_from_leases(self, organisation: str, jobs: Mapping[str, Sequence[JobRecord]]) -> bool:
        """Turn parts of an organisation's credit leases into the holds of jobs, in one update, all or none.

        `jobs`: by lease id, the jobs to hold from that lease, which have the lease's project, key and month. Return
        false, with nothing changed, if a lease has too little left or a job is held already. Not journaled.
        """
        ...

    async def settle(self, charges: Sequence[Charge]) -> bool:
        """Turn the holds of jobs of one organisation into charges, all or none.

        Each hold is removed from the account, its cost added to `spent` and the rest to `available`. Return false, with
        nothing changed, if one of the jobs is not held.
        """
        ...

    async def release(self, organisation: str, id: str, hold: Hold) -> bool:
        """Make the amount of the hold of a job, or of a credit lease, with this id available to the organisation again.

        Return false, with nothing changed, if the account has no such hold or lease with the amount of `hold`.
        """
        ...

    async def drop_months(self, organisation: str, months: Collection[str]) -> None:
        """Delete an account's budget use of past months (e.g. `2026-08`), all of whose jobs were settled long ago."""
        ...

    async def set_open(self, organisation: str, *, to: bool) -> bool:
        """Open an organisation's account (`to` true) or close it; return false if the organisation has none.

        A closed account refuses new holds; open holds are settled.
        """
        ...


class JobStore(Protocol):
    """Store of jobs as billing sees them: hold, state, cost."""

    async def insert(self, jobs: Sequence[JobRecord]) -> None:
        """Store the billing records of new jobs durably; a job that is stored already is not changed."""
        ...

    async def find(self, jobs: Collection[str]) -> Mapping[str, JobRecord]:
        """Return the billing records of the jobs with these ids, by id; unknown ids are left out."""
        ...

    async def checkpoint(self, usage: Mapping[str, JobUsage]) -> None:
        """Raise the checkpoints of `HELD` jobs to the usage delivered so far, by job id; none decreases.

        The write is not journaled.
        """
        ...

    async def charge(self, charges: Sequence[Charge]) -> bool:
        """Store the cost of jobs, moving each atomically from `HELD` to `SETTLING`; return whether all were `HELD`.

        A job in a later state is not changed: the first charge is final.
        """
        ...

    async def finish(self, jobs: Collection[str]) -> None:
        """Mark the settlement of these jobs as finished: `SETTLING` becomes `SETTLED`, other states stay."""
        ...

    async def settling_since(self, before: float, limit: int) -> Sequence[JobRecord]:
        """Return up to `limit` jobs with unfinished settlement: `SETTLING` since before `before` (Unix seconds)."""
        ...

    async def held(self, limit: int) -> Sequence[JobRecord]:
        """Return up to `limit` `HELD` jobs (accepted, not settled) of all gateways, earliest deadline first."""
        ...

    async def held_by_gateways(self, gateways: Collection[str], limit: int) -> Sequence[JobRecord]:
        """Return up to `limit` `HELD` jobs (accepted, not settled) of these gateways, earliest deadline first."""
        ...

    async def gateways(self) -> Collection[str]:
        """Return the ids of the gateways that have jobs in the state `HELD` (accepted, not settled)."""
        ...


class LedgerStore(Protocol):
    """Store of ledger entries, which never change once written."""

    async def post(self, entries: Sequence[LedgerEntry]) -> None:
        """Append entries to the ledger durably; an entry whose id is stored already is skipped."""
        ...


class HeartbeatStore(Protocol):
    """Store of the gateways' heartbeats, as a count per gateway."""

    async def increment(self, gateway: str) -> None:
        """Increment the stored heartbeat count of the gateway with this id. Not journaled."""
        ...

    async def counts(self) -> Mapping[str, int]:
        """Return the heartbeat count of each gateway that sent one within the last day, by gateway id."""
        ...


class AnsweredJobs(Protocol):
    """Store of the receipts that were stored with the answers to requests with an idempotency key."""

    async def statements(self, records: Collection[str]) -> Mapping[str, UsageStatement]:
        """Return the usage and outcome by job id that the receipts in these idempotency records (ids) state."""
        ...


@dataclass(frozen=True)
class BillingStores:
    """The stores that settlement needs: accounts, jobs, the ledger, gateway heartbeats and stored answers."""

    balances: BalanceStore
    jobs: JobStore
    ledger: LedgerStore
    heartbeats: HeartbeatStore
    answers: AnsweredJobs
