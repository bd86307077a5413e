"""Plain values of what the platform recorded about a run: the books, the engines' counts, the faults.

Read by `books.py` and `experiment.py`, judged by `checker.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.history import Told


@dataclass(frozen=True)
class Job:
    """A job's document. Amounts are nano-USD; `price` is per token: input, cached input, output."""

    id: str
    organisation: str
    state: str
    source: str
    """Whose word it was settled to; "" before."""
    billed: Told
    cost: int
    hold: int
    price: tuple[int, int, int]


@dataclass(frozen=True)
class Row:
    """A row of the ledger."""

    id: str
    job: str
    kind: str
    debit: str
    credit: str
    amount: int


@dataclass(frozen=True)
class Account:
    """An organisation's account at the end."""

    organisation: str
    available: int
    spent: int
    held: Mapping[str, int]
    """By job."""


@dataclass
class Counted:
    """What engines generated in one attempt at a job, delivered or not."""

    attempt: str
    request: int
    """The client's number of it, from the prompt."""
    submitted: list[float] = field(default_factory=list)
    """When engines were given it: more than once if one died."""
    positions: dict[int, set[int]] = field(default_factory=dict)
    """By choice."""
    times: list[float] = field(default_factory=list)
    """Of every token."""


@dataclass(frozen=True)
class Struck:
    """A fault as it happened: Unix seconds from the strike to when it was healed."""

    nemesis: str
    target: str
    """A process, or "" for what there is one of."""
    began: float
    ended: float


@dataclass(frozen=True)
class Evidence:
    """All of it."""

    jobs: Mapping[str, Job]
    rows: Sequence[Row]
    accounts: Sequence[Account]
    job_of_attempt: Mapping[str, str]
    """As far as workers lived to report."""
    counted: Sequence[Counted]
    struck: Sequence[Struck] = ()
    lowest_available: int = 0
    """Of any account, as often as was looked during the run."""
    leaks: Sequence[str] = ()
    """Where a secret or a prompt was found in a log."""
    audit: str = ""
    """What `headrace audit` found wrong; empty: nothing."""
