"""Estimates queue positions and waiting times of requests at the gateway, from the jobs of all gateways.

A job waits from its admission until its first token. This gateway's jobs are known exactly; each other gateway reports
its totals and those of its requesters once a second (`GatewayLoad`). The work ahead of a job follows from the fair
order (`waiting_work.py`). The queue's speed is the fleet's measured throughput (`router/throughput.py`); the length of
an answer is estimated from recent answers and from the limit that the request sets.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from gateway.admission.active_requesters import ActiveRequesters
from gateway.admission.other_gateways import OtherGateways, OtherGatewaysLoad
from gateway.admission.waiting_work import QueuedEntry, WaitingQueue, Work
from router.messages import (
    ActiveRequester,
    EmbeddingPrompt,
    GatewayLoad,
    ImagePrompt,
    Job,
    QueuedWork,
    RequesterWork,
    ScorePrompt,
    ServiceClass,
)
from router.model_registry import ModelInfo
from router.tenant_fair_queue import FLEX_FLOOR, slots_in_the_way
from router.timings import DEFAULT_TIMINGS

DEFAULT_ANSWER_TOKENS = 256.0
"""Expected tokens of an answer before the model's first answer has ended."""
NEWEST_WEIGHT = 0.05
"""Weight of the newest answer in the moving average of lengths."""
BYTES_PER_TOKEN = 4
REPORTED_REQUESTERS = 64
"""Most requesters of a queue, and most active ones of a model, that a load report names."""

_ORDER = (ServiceClass.PRIORITY, ServiceClass.DEFAULT, ServiceClass.FLEX)

Key = tuple[str, ServiceClass]


@dataclass(frozen=True)
class QueueEstimate:
    """Estimated queue position and waiting time of a request."""

    position: int
    """Position from 1 (next); 0: a slot is free."""
    seconds: float | None
    """Waiting time until a slot is free; `None` before throughput was measured, infinite while it is zero."""


class QueuedRequest:
    """The jobs of one request as the estimator counts them, waiting or running, from admission to end."""

    def __init__(self, queue: WaitingQueue, entries: Sequence[QueuedEntry]) -> None:
        self._queue = queue
        self._entries: dict[str, QueuedEntry] = {entry.job.id: entry for entry in entries}
        for entry in entries:
            queue.enter(entry)

    @property
    def tenant(self) -> str:
        """Tenant of this request; "" once all of its jobs have their first token."""
        return "" if (entry := self._first) is None else entry.job.tenant

    @property
    def requester(self) -> str:
        """Requester of this request; "" once all of its jobs have their first token."""
        return "" if (entry := self._first) is None else entry.job.requester

    @property
    def number(self) -> int | None:
        """Sequence number, in order of admission, of this request's first waiting job; `None` if none waits."""
        return None if (entry := self._first) is None else entry.number

    @property
    def tokens_each(self) -> float | None:
        """Expected tokens of each sequence of this request's first waiting job; `None` if none waits."""
        return None if (entry := self._first) is None else entry.tokens / entry.job.n

    @property
    def _first(self) -> QueuedEntry | None:
        return next((entry for entry in self._entries.values() if not entry.begun), None)

    def begun(self, job: str) -> None:
        """Count one job of the request, by id, as running instead of waiting, because it has its first token.

        Idempotent.
        """
        entry = self._entries.get(job)
        if entry is not None and not entry.begun:
            entry.begun = True
            self._queue.running += entry.job.slots
            self._queue.leave(entry)

    def leave(self) -> None:
        """Stop counting this request's jobs, because the request has ended. Idempotent."""
        for entry in self._entries.values():
            if entry.begun:
                self._queue.running -= entry.job.slots
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
        self._own: dict[Key, WaitingQueue] = {}
        self._others = OtherGateways(clock, report_timeout)
        self._answer_tokens: dict[str, float] = {}

    def enter(self, jobs: Sequence[Job]) -> QueuedRequest:
        """Count one request's jobs (of one model and service class) as waiting; return the request's entry."""
        queue = self._own.setdefault((jobs[0].model, jobs[0].service_class), WaitingQueue())
        entries = []
        for job in jobs:
            queue.last += 1
            entries.append(QueuedEntry(job, queue.last, self._expected_tokens(job)))
        return QueuedRequest(queue, entries)

    def record_answer(self, model: str, tokens: float) -> None:
        """Update a model's average answer length with an ended sequence of `tokens` generated tokens."""
        mean = self._answer_tokens.get(model, tokens)
        self._answer_tokens[model] = mean + NEWEST_WEIGHT * (tokens - mean)

    def observe(self, load: GatewayLoad) -> None:
        """Store another gateway's load report in place of its earlier one; a report of this gateway is ignored."""
        if load.gateway != self._gateway_id:
            self._others.observe(load)

    def report(self, active: Mapping[str, ActiveRequesters]) -> GatewayLoad:
        """Return this gateway's load, to broadcast to the others: work by model and service class, active requesters.

        Args:
            active: the active requesters of each model.
        """
        queues = [
            QueuedWork(
                model=model,
                service_class=service_class,
                waiting=max(0, round(queue.total.sequences)),
                tokens=max(0, round(queue.total.tokens)),
                running=queue.running,
                requesters=_requesters(queue),
            )
            for (model, service_class), queue in self._own.items()
            if queue.numbers or queue.running
        ]
        requesters = [
            ActiveRequester(model=model, tenant=tenant, requester=requester)
            for model, each in active.items()
            for tenant, requester in islice(each.latest_first(), REPORTED_REQUESTERS)
        ]
        return GatewayLoad(gateway=self._gateway_id, queues=queues, active=requesters)

    def waiting(self, model: str) -> int:
        """Return the number of sequences that wait for a model, in all classes and at all gateways."""
        return round(sum(self._waiting((model, service_class)).sequences for service_class in _ORDER))

    def other_gateways(self, model: str) -> OtherGatewaysLoad:
        """Return the sequences and active requesters that the other gateways report for a model."""
        return self._others.load(model)

    def estimate(
        self,
        model: ModelInfo,
        service_class: ServiceClass,
        queued: QueuedRequest | None = None,
        *,
        tenant: str = "",
        requester: str = "",
    ) -> QueueEstimate:
        """Estimate position and wait of `queued`, or if it is `None`, of a new request of this requester."""
        mean = self._answer_tokens.get(model.name, DEFAULT_ANSWER_TOKENS)
        number, tokens_each = None, mean
        if queued is not None:
            tenant, requester, number = queued.tenant, queued.requester, queued.number
            tokens_each = mean if queued.tokens_each is None else queued.tokens_each
        ahead = Work()
        for each in _ORDER[: _ORDER.index(service_class)]:
            ahead.add(self._waiting((model.name, each)))
        key = (model.name, service_class)
        own, others = self._own.get(key) or WaitingQueue(), self._others.waiting(*key)
        ahead.add(own.work_ahead(others, tenant, requester, number, tokens_each))
        running = {each: self._running((model.name, each)) for each in _ORDER}
        in_the_way = slots_in_the_way(
            service_class, taken=sum(running.values()), flex=running[ServiceClass.FLEX], slots=model.effective_capacity
        )
        free = max(0, model.effective_capacity - in_the_way)
        excess = ahead.sequences + 1 - free
        if excess <= 0:
            return QueueEstimate(0, 0.0)
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

    def _waiting(self, key: Key) -> Work:
        waiting = Work()
        if (own := self._own.get(key)) is not None:
            waiting.add(own.total)
        waiting.add(self._others.waiting(*key).total)
        return waiting

    def _running(self, key: Key) -> int:
        own = self._own.get(key)
        return (0 if own is None else own.running) + self._others.running(*key)

    def _expected_tokens(self, job: Job) -> float:
        if not job.slots:
            return 0.0
        if isinstance(job.prompt, EmbeddingPrompt):
            return sum(len(each) / (BYTES_PER_TOKEN if isinstance(each, str) else 1) for each in job.prompt.inputs)
        if isinstance(job.prompt, ScorePrompt):
            return sum(_sizes(job.prompt)) / BYTES_PER_TOKEN
        if isinstance(job.prompt, ImagePrompt):
            return job.n  # image workers report images per second
        limit = job.sampling.max_tokens if job.sampling.max_tokens is not None else job.sampling.default_max_tokens
        mean = self._answer_tokens.get(job.model, DEFAULT_ANSWER_TOKENS)
        each = mean if limit is None else min(mean, limit)
        if job.search is not None:
            return min(job.search.n * job.search.expansions * each, job.search.budget_tokens)
        return job.n * each


def _sizes(prompt: ScorePrompt) -> Iterator[int]:
    """Yield the characters of each candidate with its context."""
    contexts = [
        len(each) if isinstance(each, str) else sum(len(str(message.get("content"))) for message in each)
        for each in prompt.contexts
    ]
    for index in range(len(prompt.candidates)):
        yield contexts[0 if len(contexts) == 1 else index] + len(prompt.text(index))


def _requesters(queue: WaitingQueue) -> list[RequesterWork]:
    most = heapq.nlargest(REPORTED_REQUESTERS, queue.by_requester(), key=lambda each: each[2].tokens)
    return [
        RequesterWork(
            tenant=tenant,
            requester=requester,
            waiting=max(0, round(work.sequences)),
            tokens=max(0, round(work.tokens)),
        )
        for tenant, requester, work in most
    ]
