"""Estimates queue positions and waiting times of jobs, over all gateways.

A job waits from its admission until its first token. This gateway's jobs are known exactly; each other gateway reports
its totals once a second (`GatewayLoad`), and its jobs are assumed to be spread evenly over the queue. Because tenants
are served fairly (`publish_queue.py`), at most as much of another tenant's work is ahead of a job as its own tenant has
ahead of it. The queue's speed is the fleet's measured throughput (`router/throughput.py`); the length of an answer is
estimated from recent answers and from the limit that the request sets.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gateway.admission.publish_queue import OtherGatewaysLoad
from router.messages import EmbeddingPrompt, GatewayLoad, Job, QueuedWork, ServiceClass
from router.model_registry import ModelInfo
from router.tenant_fair_queue import FLEX_FLOOR
from router.timings import DEFAULT_TIMINGS

DEFAULT_ANSWER_TOKENS = 256.0
"""Expected tokens of an answer before the model's first answer has ended."""
NEWEST_WEIGHT = 0.05
"""Weight of the newest answer in the moving average of lengths."""
BYTES_PER_TOKEN = 4

_ORDER = (ServiceClass.PRIORITY, ServiceClass.DEFAULT, ServiceClass.FLEX)

Key = tuple[str, ServiceClass]


@dataclass(frozen=True)
class QueueEstimate:
    """Estimated queue position and waiting time of a request."""

    position: int
    """Position from 1 (next); 0: a slot is free."""
    seconds: float | None
    """Waiting time until a slot is free; `None` before throughput was measured, infinite while it is zero."""


@dataclass
class _Work:
    """A number of sequences and of the tokens that they are expected to have."""

    sequences: float = 0.0
    tokens: float = 0.0

    def add(self, sequences: float, tokens: float, share: float = 1.0) -> None:
        self.sequences += share * sequences
        self.tokens += share * tokens


@dataclass
class _WaitingJobs:
    """Waiting jobs in order of admission."""

    numbers: list[int] = field(default_factory=list)
    """Sequence numbers of the jobs, ascending."""
    total: _Work = field(default_factory=_Work)

    def add(self, entry: _Entry) -> None:
        self.numbers.append(entry.number)
        self.total.add(entry.job.n, entry.tokens)

    def remove(self, entry: _Entry) -> None:
        del self.numbers[bisect_left(self.numbers, entry.number)]
        self.total.add(-entry.job.n, -entry.tokens)

    def share_before(self, number: int, extra: float) -> float:
        """Return the fraction of the jobs that are before `number`, with `extra` jobs added to those before it."""
        return min(1.0, (bisect_left(self.numbers, number) + extra) / len(self.numbers)) if self.numbers else 0.0


@dataclass
class _Queue(_WaitingJobs):
    """This gateway's jobs of one model and service class."""

    tenants: dict[str, _WaitingJobs] = field(default_factory=dict)
    running: int = 0
    last: int = 0
    """Sequence number of the newest job."""

    def enter(self, entry: _Entry) -> None:
        self.add(entry)
        self.tenants.setdefault(entry.job.tenant, _WaitingJobs()).add(entry)

    def leave(self, entry: _Entry) -> None:
        self.remove(entry)
        jobs = self.tenants[entry.job.tenant]
        jobs.remove(entry)
        if not jobs.numbers:
            del self.tenants[entry.job.tenant]

    def work_ahead(self, tenant: str, number: int | None, tokens: float) -> _Work:
        """Return the work ahead of a tenant's job `number` (`None`: a new job), which has about `tokens` tokens."""
        own, ahead = self.tenants.get(tenant, _WaitingJobs()), _Work()
        share = 1.0 if number is None else own.share_before(number, 0.0)
        ahead.add(own.total.sequences, own.total.tokens, share)
        fair_tokens = ahead.tokens + tokens
        for other, jobs in self.tenants.items():
            if other != tenant:
                share = min(1.0, fair_tokens / jobs.total.tokens) if jobs.total.tokens > 0 else 1.0
                ahead.add(jobs.total.sequences, jobs.total.tokens, share)
        return ahead


@dataclass
class _Entry:
    """A job in a queue, with its sequence number and expected tokens."""

    job: Job
    number: int
    tokens: float
    begun: bool = False


class QueuedRequest:
    """The jobs of one request as the estimator counts them, waiting or running, from admission to end."""

    def __init__(self, queue: _Queue, entries: Sequence[_Entry]) -> None:
        self._queue = queue
        self._entries: dict[str, _Entry] = {entry.job.id: entry for entry in entries}
        for entry in entries:
            queue.enter(entry)

    @property
    def tenant(self) -> str:
        """Tenant of the request; "" if none of its jobs waits for a first token."""
        return "" if (entry := self._first) is None else entry.job.tenant

    @property
    def number(self) -> int | None:
        """Sequence number, in order of admission, of the request's first waiting job; `None` if none waits."""
        return None if (entry := self._first) is None else entry.number

    @property
    def tokens_each(self) -> float | None:
        """Expected tokens of each sequence of the request's first waiting job; `None` if none waits."""
        return None if (entry := self._first) is None else entry.tokens / entry.job.n

    @property
    def _first(self) -> _Entry | None:
        return next((entry for entry in self._entries.values() if not entry.begun), None)

    def begun(self, job: str) -> None:
        """Count the job with id `job` as running, not waiting, because it has its first token. Idempotent."""
        entry = self._entries.get(job)
        if entry is not None and not entry.begun:
            entry.begun = True
            self._queue.running += entry.job.n
            self._queue.leave(entry)

    def leave(self) -> None:
        """Stop counting the jobs of the request, which has ended. Idempotent."""
        for entry in self._entries.values():
            if entry.begun:
                self._queue.running -= entry.job.n
            else:
                self._queue.leave(entry)
        self._entries = {}


class QueueEstimator:
    """Estimates queue positions and waits from this gateway's jobs and other gateways' load reports, which expire."""

    def __init__(
        self,
        gateway_id: str,
        clock: Callable[[], float] = time.monotonic,
        *,
        report_timeout: float = DEFAULT_TIMINGS.load_report_timeout,
    ) -> None:
        self._gateway_id = gateway_id
        self._clock = clock
        self._report_timeout = report_timeout
        self._own: dict[Key, _Queue] = {}
        self._others: dict[str, tuple[float, GatewayLoad]] = {}
        self._answer_tokens: dict[str, float] = {}

    def enter(self, jobs: Sequence[Job]) -> QueuedRequest:
        """Count a request's jobs (of one model and service class) as waiting; return their entry in the queue."""
        queue = self._own.setdefault((jobs[0].model, jobs[0].service_class), _Queue())
        entries = []
        for job in jobs:
            queue.last += 1
            entries.append(_Entry(job, queue.last, self._expected_tokens(job)))
        return QueuedRequest(queue, entries)

    def record_answer(self, model: str, tokens: float) -> None:
        """Update the moving average of a model's answer lengths with a sequence of `tokens` generated tokens."""
        mean = self._answer_tokens.get(model, tokens)
        self._answer_tokens[model] = mean + NEWEST_WEIGHT * (tokens - mean)

    def observe(self, load: GatewayLoad) -> None:
        """Store a gateway's load report in place of its earlier one; this gateway's own is ignored."""
        if load.gateway != self._gateway_id:
            now = self._clock()
            self._others[load.gateway] = (now, load)
            self._others = {name: each for name, each in self._others.items() if now - each[0] <= self._report_timeout}

    def report(self) -> GatewayLoad:
        """Return this gateway's load to broadcast: waiting and running sequences by model and service class."""
        queues = [
            QueuedWork(
                model=model,
                service_class=service_class,
                waiting=max(0, round(queue.total.sequences)),
                tokens=max(0, round(queue.total.tokens)),
                running=queue.running,
            )
            for (model, service_class), queue in self._own.items()
            if queue.numbers or queue.running
        ]
        return GatewayLoad(gateway=self._gateway_id, queues=queues)

    def waiting(self, model: str) -> int:
        """Return the number of sequences that wait for a model, in all classes and at all gateways."""
        return round(sum(self._waiting((model, service_class)).sequences for service_class in _ORDER))

    def other_gateways(self, model: str) -> OtherGatewaysLoad:
        """Return how many other gateways have waiting or running sequences of a model, and how many sequences."""
        of_model = [
            sum(work.waiting + work.running for work in load.queues if work.model == model) for load in self._loads()
        ]
        return OtherGatewaysLoad(sum(sequences > 0 for sequences in of_model), sum(of_model))

    def estimate(
        self, model: ModelInfo, service_class: ServiceClass, queued: QueuedRequest | None = None, *, tenant: str = ""
    ) -> QueueEstimate:
        """Estimate queue position and wait of `queued`, or of a new request of `tenant` if `queued` is `None`."""
        usual = self._answer_tokens.get(model.name, DEFAULT_ANSWER_TOKENS)
        own = None if queued is None else queued.tokens_each
        tenant, number = (tenant, None) if queued is None else (queued.tenant, queued.number)
        ahead = self._ahead(model.name, service_class, tenant, number, usual if own is None else own)
        free = max(0, model.effective_capacity - self._running(model.name))
        excess = ahead.sequences + 1 - free
        if excess <= 0:
            return QueueEstimate(0, 0.0)
        tokens_each = usual if own is None else own
        if ahead.sequences:
            tokens_each = ahead.tokens / ahead.sequences
        return QueueEstimate(math.ceil(excess), self._seconds(model, service_class, excess * tokens_each))

    def _seconds(self, model: ModelInfo, service_class: ServiceClass, tokens: float) -> float | None:
        rate = model.tokens_per_second
        if rate is None or not model.workers:
            return None
        if rate <= 0:
            return math.inf
        seconds = tokens / rate
        if service_class is ServiceClass.FLEX:
            return seconds
        flex = self._waiting((model.name, ServiceClass.FLEX)).sequences > 0
        return seconds / (1 - FLEX_FLOOR) if flex else seconds

    def _ahead(self, model: str, service_class: ServiceClass, tenant: str, number: int | None, tokens: float) -> _Work:
        """Return all work ahead of job `number` of a class (`None`: a new job), which has about `tokens` tokens."""
        ahead = _Work()
        for each in _ORDER[: _ORDER.index(service_class)]:
            waiting = self._waiting((model, each))
            ahead.add(waiting.sequences, waiting.tokens)
        key = (model, service_class)
        own, others = self._own.get(key, _Queue()), self._waiting_at_others(key)
        own_work = own.work_ahead(tenant, number, tokens)
        ahead.add(own_work.sequences, own_work.tokens)
        ahead.add(others.sequences, others.tokens, 1.0 if number is None else own.share_before(number, 0.5))
        return ahead

    def _waiting(self, key: Key) -> _Work:
        waiting = self._waiting_at_others(key)
        own = self._own.get(key, _Queue()).total
        waiting.add(own.sequences, own.tokens)
        return waiting

    def _waiting_at_others(self, key: Key) -> _Work:
        waiting = _Work()
        for work in self._reported():
            if (work.model, work.service_class) == key:
                waiting.add(work.waiting, work.tokens)
        return waiting

    def _running(self, model: str) -> int:
        own = sum(queue.running for (name, _), queue in self._own.items() if name == model)
        return own + sum(work.running for work in self._reported() if work.model == model)

    def _reported(self) -> list[QueuedWork]:
        return [work for load in self._loads() for work in load.queues]

    def _loads(self) -> list[GatewayLoad]:
        now = self._clock()
        return [load for at, load in self._others.values() if now - at <= self._report_timeout]

    def _expected_tokens(self, job: Job) -> float:
        if isinstance(job.prompt, EmbeddingPrompt):
            return sum(len(each) / (BYTES_PER_TOKEN if isinstance(each, str) else 1) for each in job.prompt.inputs)
        limit = job.sampling.max_tokens if job.sampling.max_tokens is not None else job.sampling.default_max_tokens
        mean = self._answer_tokens.get(job.model, DEFAULT_ANSWER_TOKENS)
        return job.n * (mean if limit is None else min(mean, limit))
