"""What an audit reads and what it finds. Knows no MongoDB: `store/audit.py` reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from auth_billing.money.books import Balance, JobRecord
from router.messages import Usage


class Check(StrEnum):
    """What must hold of the books, by what is said when it does not."""

    READABLE = "a document is not what it should be"
    NOT_NEGATIVE = "an account has less than nothing"
    ACCOUNT_ADDS_UP = "credited is not available + held + spent"
    BUDGETS_ADD_UP = "what is used of budgets is not what was held and spent"
    SPENT_IS_LEDGER = "what was spent is not what the ledger says"
    CREDIT_IS_LEDGER = "what was credited is not what the ledger says"
    CREDIT_TAKEN_IN = "credit was entered and not taken in"
    HOLD_HAS_JOB = "a hold has no job"
    HOLD_IS_JOBS = "a hold is not its job's"
    JOB_HAS_HOLD = "a job runs and holds nothing"
    LEASE_IN_TIME = "credit was leased to a gateway 15 minutes ago and not given back"
    HOLD_IN_TIME = "a hold is older than its job's deadline and 15 minutes"
    COST_IS_PRICE = "a job's cost is not its price times its usage"
    JOB_IN_LEDGER = "a job is settled and not in the ledger"
    LEDGER_IS_JOBS = "the ledger says something else than the job"
    SETTLED_ONCE = "a job is in the ledger more than once"
    ROW_BALANCES = "a row of the ledger does not move an amount from one account to another"
    ROW_HAS_JOB = "a row of the ledger has no job"
    WORKED = "more was charged than a worker says it has done"


@dataclass(frozen=True)
class Difference:
    """Something that does not hold. `subject`: the id of the account, job or row; `detail`: the numbers."""

    check: Check
    organisation: str
    subject: str
    detail: str = ""


@dataclass(frozen=True)
class LedgerRow:
    """A row of the ledger, as it is: nothing is taken for granted, so fields may be missing (`None`) or anything."""

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


@dataclass(frozen=True)
class LedgerSums:
    """What the ledger has of one organisation."""

    settled: int
    """Sum of what jobs have cost."""
    credits: int
    """Rows of credit up to a number, and their sum."""
    credited: int
    oldest_waiting: float | None
    """When the first row of credit after that number was written (Unix seconds)."""


@dataclass(frozen=True)
class JobsRead:
    """Some jobs: those that can be read, and why others can't."""

    jobs: Mapping[str, JobRecord]
    unreadable: Mapping[str, str]


@dataclass(frozen=True)
class AuditReport:
    """What was looked at, and what does not hold."""

    accounts: int
    jobs: int
    rows: int
    differences: Sequence[Difference]

    def counts(self) -> Counter[Check]:
        """How many differences each check has found."""
        return Counter(each.check for each in self.differences)


class AuditStore(Protocol):
    """Where the books are read, a page at a time. Every method may raise `StoreUnavailable`."""

    async def accounts(self, after: str, limit: int) -> Sequence[str]:
        """Ids of accounts, in order, after one."""
        ...

    async def job_ids(self, after: str, limit: int) -> Sequence[str]:
        """Ids of jobs, in order, after one."""
        ...

    async def rows(self, after: str, limit: int) -> Sequence[LedgerRow]:
        """Rows of the ledger, in the order of their ids, after one."""
        ...

    async def balance(self, organisation: str) -> Balance | str | None:
        """An account; why it can't be read; `None` if there is none."""
        ...

    async def read_jobs(self, jobs: Collection[str]) -> JobsRead:
        """Those of the jobs that are there."""
        ...

    async def settlements(self, jobs: Collection[str]) -> Mapping[str, LedgerRow]:
        """The rows of the ledger that settle these jobs, by job."""
        ...

    async def worked(self, jobs: Collection[str]) -> Mapping[str, Sequence[Usage]]:
        """What workers say of these jobs, an entry an attempt."""
        ...

    async def settling(self, organisation: str) -> Sequence[JobRecord]:
        """An organisation's jobs whose cost is written and that are not finished."""
        ...

    async def sums(self, organisation: str, credits: int) -> LedgerSums:
        """What the ledger has of an organisation; of credit the rows up to number `credits`."""
        ...
