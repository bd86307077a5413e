"""Counts waiting jobs of a model and service class by tenant and requester, and the work that is ahead of each.

Tenants and requesters are served fairly (`publish_queue.py`): at most as much of another requester's work is ahead of a
job as its own requester has ahead of it, and at most as much of another tenant's work as its own tenant has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from router.messages import Job


@dataclass
class Work:
    """A number of sequences and of the tokens that they are expected to have."""

    sequences: float = 0.0
    tokens: float = 0.0

    def add(self, work: Work, share: float = 1.0) -> None:
        """Add `share` times the sequences and tokens of `work` to this work; -1 subtracts them."""
        self.sequences += share * work.sequences
        self.tokens += share * work.tokens

    def add_at_most(self, tokens: float, *works: Work | None) -> None:
        """Add a fair share of a competitor's `works` (summed up): the part that has at most `tokens` tokens."""
        total = Work()
        for work in works:
            if work is not None:
                total.add(work)
        self.add(total, min(1.0, tokens / total.tokens) if total.tokens > 0 else 1.0)


@dataclass
class OthersWork:
    """Waiting work of the other gateways."""

    total: Work = field(default_factory=Work)
    tenants: dict[str, Work] = field(default_factory=dict)
    requesters: dict[str, dict[str, Work]] = field(default_factory=dict)
    """Work of each tenant's requesters, as far as it was reported by requester."""
    unattributed: Work = field(default_factory=Work)
    """The part of `total` that was not."""


@dataclass
class QueuedEntry:
    """A job in the estimated queue, with its sequence number and expected tokens."""

    job: Job
    number: int
    tokens: float
    begun: bool = False


@dataclass
class WaitingJobs:
    """Waiting jobs in order of admission."""

    numbers: list[int] = field(default_factory=list)
    """Sequence numbers of the jobs, ascending."""
    total: Work = field(default_factory=Work)

    def add(self, entry: QueuedEntry) -> None:
        """Add one waiting job, admitted after all others, to these counts."""
        self.numbers.append(entry.number)
        self.total.add(Work(entry.job.slots, entry.tokens))

    def remove(self, entry: QueuedEntry) -> None:
        """Subtract one job from these counts of waiting jobs, because the job has begun or ended."""
        del self.numbers[bisect_left(self.numbers, entry.number)]
        self.total.add(Work(entry.job.slots, entry.tokens), -1.0)

    def share_before(self, number: int | None, extra: float = 0.0) -> float:
        """Return which fraction of these jobs comes before job `number`; 1 for a new job (`None`).

        `extra` jobs are added to those before.
        """
        if number is None:
            return 1.0
        return min(1.0, (bisect_left(self.numbers, number) + extra) / len(self.numbers)) if self.numbers else 0.0


@dataclass
class TenantJobs(WaitingJobs):
    """Waiting jobs of one tenant."""

    requesters: dict[str, WaitingJobs] = field(default_factory=dict)


@dataclass
class WaitingQueue(WaitingJobs):
    """This gateway's jobs of one model and service class."""

    tenants: dict[str, TenantJobs] = field(default_factory=dict)
    running: int = 0
    last: int = 0
    """Sequence number of the newest job."""

    def enter(self, entry: QueuedEntry) -> None:
        """Count one job as waiting: in this queue, for its tenant and for its requester."""
        self.add(entry)
        tenant = self.tenants.setdefault(entry.job.tenant, TenantJobs())
        tenant.add(entry)
        tenant.requesters.setdefault(entry.job.requester, WaitingJobs()).add(entry)

    def leave(self, entry: QueuedEntry) -> None:
        """Stop counting one job as waiting, because it has begun or ended."""
        self.remove(entry)
        tenant = self.tenants[entry.job.tenant]
        tenant.remove(entry)
        jobs = tenant.requesters[entry.job.requester]
        jobs.remove(entry)
        if not jobs.numbers:
            del tenant.requesters[entry.job.requester]
        if not tenant.numbers:
            del self.tenants[entry.job.tenant]

    def by_requester(self) -> Iterator[tuple[str, str, Work]]:
        """Yield (tenant, requester, waiting work) of all requesters with waiting jobs, for this gateway's report."""
        for tenant, jobs in self.tenants.items():
            for requester, own in jobs.requesters.items():
                yield tenant, requester, own.total

    def work_ahead(self, others: OthersWork, tenant: str, requester: str, number: int | None, tokens: float) -> Work:
        """Return the work served before a requester's job `number` (`None`: a new job) with about `tokens` tokens.

        The positions of the other gateways' jobs are unknown: they are assumed to be spread evenly over the queue.
        """
        of_tenant = self.tenants.get(tenant) or TenantJobs()
        own = of_tenant.requesters.get(requester) or WaitingJobs()
        elsewhere = others.requesters.get(tenant, {})
        ahead = Work()
        ahead.add(own.total, own.share_before(number))
        ahead.add(elsewhere.get(requester, Work()), own.share_before(number, 0.5))
        fair_tokens = ahead.tokens + tokens
        for name in of_tenant.requesters.keys() | elsewhere.keys():
            if name != requester:
                here = of_tenant.requesters.get(name)
                ahead.add_at_most(fair_tokens, None if here is None else here.total, elsewhere.get(name))
        fair_tokens = ahead.tokens + tokens
        for name in self.tenants.keys() | others.tenants.keys():
            if name != tenant:
                here = self.tenants.get(name)
                ahead.add_at_most(fair_tokens, None if here is None else here.total, others.tenants.get(name))
        ahead.add(others.unattributed, self.share_before(number, 0.5))
        return ahead
