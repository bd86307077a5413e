"""Defines what an audit of the books reads and reports, and the interface of the store that it reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from auth_billing.money.billing_records import Balance, JobRecord
from router.messages import Usage, UsagePart
from router.usage_arithmetic import JobUsage


class Check(StrEnum):
    """Invariants of the books; the value is the message that reports a violation."""

    READABLE = "a document is malformed"
    NOT_NEGATIVE = "an account has a negative amount"
    ACCOUNT_ADDS_UP = "credited is not available + held + spent + withdrawn"
    BUDGETS_ADD_UP = "used budget is not held + spent"
    SPENT_IS_LEDGER = "spent is not the sum of the ledger's settlements"
    CREDIT_IS_LEDGER = "credited is not the sum of the ledger's credits"
    WITHDRAWN_IS_LEDGER = "withdrawn is not the sum of the ledger's withdrawals"
    CREDIT_TAKEN_IN = "credit in the ledger has not reached the account"
    HOLD_HAS_JOB = "a hold has no job"
    HOLD_IS_JOBS = "a hold differs from its job"
    JOB_HAS_HOLD = "a running job has no hold"
    LEASE_IN_TIME = "a gateway's credit lease was neither renewed nor returned for 15 minutes"
    HOLD_IN_TIME = "a hold exists 15 minutes after its job's deadline"
    COST_IS_PRICE = "a job's cost is not its price times its usage"
    JOB_IN_LEDGER = "a settled job is not in the ledger"
    LEDGER_IS_JOBS = "a ledger entry differs from its job"
    SETTLED_ONCE = "a job is in the ledger more than once"
    ROW_BALANCES = "a ledger entry does not balance"
    ROW_HAS_JOB = "a ledger entry has no job"
    WORKED = "a job was charged more than its workers recorded"


@dataclass(frozen=True)
class Difference:
    """A violated invariant. `subject`: id of the account, job or ledger entry; `detail`: the numbers."""

    check: Check
    organisation: str
    subject: str
    detail: str = ""


@dataclass(frozen=True)
class RawLedgerEntry:
    """A ledger entry as stored, unvalidated: fields may be missing (`None`) or of any type."""

    id: str
    organisation: str
    debit: object
    credit: object
    amount: object
    kind: object
    job: str | None = None
    usage: Usage | None = None
    price_version: object = None
    number: object = None
    parts: tuple[UsagePart, ...] = ()


@dataclass(frozen=True)
class LedgerSums:
    """Sums of one organisation's ledger entries, in nano-USD."""

    settled: int
    """Sum of the costs of jobs."""
    credits: int
    """Count of credit entries up to the requested number; `credited` is their sum."""
    credited: int
    oldest_waiting: float | None
    """Time of the first credit entry after that number (Unix seconds)."""
    withdrawn: int = 0


@dataclass(frozen=True)
class JobsRead:
    """Result of reading jobs: the readable ones, and for each malformed one the reason, both by job id."""

    jobs: Mapping[str, JobRecord]
    unreadable: Mapping[str, str]


@dataclass(frozen=True)
class AuditReport:
    """Result of an audit: how many documents of each kind were checked, and the differences that were found."""

    accounts: int
    jobs: int
    rows: int
    differences: Sequence[Difference]

    def counts(self) -> Counter[Check]:
        """Return how many differences the audit found of each check (invariant), 0 for a check without any."""
        return Counter(each.check for each in self.differences)


class AuditStore(Protocol):
    """Paged read access to accounts, jobs and ledger for the auditor. Every method may raise `StoreUnavailable`."""

    async def accounts(self, after: str, limit: int) -> Sequence[str]:
        """Return up to `limit` ids of accounts (organisation ids) that sort after `after`, in order."""
        ...

    async def job_ids(self, after: str, limit: int) -> Sequence[str]:
        """Return a page of the ids of all stored jobs: up to `limit` that sort after `after`, in order."""
        ...

    async def rows(self, after: str, limit: int) -> Sequence[RawLedgerEntry]:
        """Return a page of the ledger's entries as stored: up to `limit` whose ids sort after `after`, in order."""
        ...

    async def balance(self, organisation: str) -> Balance | str | None:
        """Return an organisation's account, `None` if there is none, or the reason why its document is malformed."""
        ...

    async def read_jobs(self, jobs: Collection[str]) -> JobsRead:
        """Return the valid jobs with these ids, and for each malformed one the reason; unknown ids are left out."""
        ...

    async def settlements(self, jobs: Collection[str]) -> Mapping[str, RawLedgerEntry]:
        """Return the ledger entry that settles each of these jobs, by job id; a job without an entry is left out."""
        ...

    async def worked(self, jobs: Collection[str]) -> Mapping[str, Mapping[str, JobUsage]]:
        """Return the usage records of these jobs, which workers sent: the usage by job id and attempt id."""
        ...

    async def settling(self, organisation: str) -> Sequence[JobRecord]:
        """Return an organisation's jobs in the state `SETTLING`: cost written, settlement not finished."""
        ...

    async def sums(self, organisation: str, credits: int) -> LedgerSums:
        """Return the sums (nano-USD) of an organisation's ledger entries, with credit entries 1 to `credits` only."""
        ...
