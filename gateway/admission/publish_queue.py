"""Fair queue of admitted jobs that are not published to the broker until the workers have capacity for them.

The broker's queues do not distinguish tenants, so they are kept almost empty: a gateway publishes no more jobs than run
at once plus the few that workers prefetch. The other jobs wait here, in the order of the service that each tenant has
received (`router/tenant_fair_queue.py`) and with the workers' order of service classes. While several tenants are
active, no tenant may use all slots: an eighth stays free for a newly active tenant, which would otherwise wait until
another tenant's answer ends. Of the other gateways only totals are known: each gateway may use the slots that the
others leave, and at least its equal share.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from router.messages import Delta, Embedded, Job, Reply, ServiceClass, Started
from router.model_registry import ModelInfo, ModelRegistry
from router.tenant_fair_queue import OUTPUT_WEIGHT, PROMPT_WEIGHT, ServiceClassQueues

PREFETCH_SHARE = 0.05
"""Jobs that a fleet's workers prefetch beyond their slots, as a fraction of the slots."""
RESERVED_SHARE = 1 / 8
"""Fraction of the slots that a single tenant does not get while other tenants are active."""
ACTIVITY_WINDOW = 60.0
"""Seconds for which a tenant counts as active after its last request."""
RECHECK_INTERVAL = 0.5
"""Seconds between two checks for additional capacity while jobs wait."""


class OtherGatewaysLoad(NamedTuple):
    """Load of the other gateways on one model."""

    gateways: int
    """Number of other gateways with waiting or running sequences."""
    sequences: int
    """Number of their waiting and running sequences."""


class QueuedJob:
    """One job's entry in the publish queue, from its admission to its end."""

    def __init__(self, queue: _ModelQueue, job: Job) -> None:
        self._queue = queue
        self.job = job
        self.left = False
        self._released = asyncio.Event()

    @property
    def released(self) -> bool:
        """Whether the job may be published, because the workers have capacity for it."""
        return self._released.is_set()

    async def wait(self) -> None:
        """Wait until `release` allows the job to be published."""
        await self._released.wait()

    def release(self) -> None:
        """Allow the job to be published: wake the caller of `wait`."""
        self._released.set()

    def charge(self, reply: Reply) -> None:
        """Count a reply's tokens as service to the job's tenant; tenants with less service are released first."""
        match reply:
            case Started():
                self._queue.charge(self.job, PROMPT_WEIGHT * reply.prompt_tokens)
            case Delta():
                self._queue.charge(self.job, OUTPUT_WEIGHT * reply.positions)
            case Embedded():
                self._queue.charge(self.job, PROMPT_WEIGHT * reply.tokens)

    def leave(self) -> None:
        """Remove an ended or cancelled job, and release waiting jobs for publishing into its slots. Idempotent."""
        if not self.left:
            self.left = True
            self._queue.leave(self)


class PublishQueue:
    """One gateway's waiting and published jobs, by model. Use it on the event loop only."""

    def __init__(
        self,
        models: ModelRegistry,
        other_gateways: Callable[[str], OtherGatewaysLoad] = lambda _model: OtherGatewaysLoad(0, 0),
    ) -> None:
        self._models = models
        self._other_gateways = other_gateways
        self._queues: dict[str, _ModelQueue] = {}

    @property
    def waiting(self) -> int:
        """Number of this gateway's jobs, of all models, that wait for capacity to be published."""
        return sum(len(queue.waiting) for queue in self._queues.values())

    def enter(self, job: Job) -> QueuedJob:
        """Queue a job, and release it at once if there is capacity. Call `leave` on the entry when the job ends."""
        queue = self._queues.get(job.model)
        if queue is None:
            queue = self._queues[job.model] = _ModelQueue(lambda: self._capacity(job.model))
        return queue.enter(job)

    def _capacity(self, model: str) -> _Capacity | None:
        info = self._models.find(model)
        return None if info is None or not info.workers else _capacity(info, self._other_gateways(model))


class _Capacity(NamedTuple):
    """Number of sequences that this gateway may have at the workers of a model."""

    slots: int
    with_prefetch: int


def _capacity(model: ModelInfo, others: OtherGatewaysLoad) -> _Capacity:
    share = math.ceil(model.capacity / (others.gateways + 1))
    slots = max(share, model.capacity - others.sequences)
    return _Capacity(slots, slots + max(model.workers, math.ceil(slots * PREFETCH_SHARE)))


class _ModelQueue:
    """The waiting and published jobs of one model."""

    def __init__(self, capacity: Callable[[], _Capacity | None]) -> None:
        """`capacity` returns the current capacity; `None`: unlimited."""
        self._capacity = capacity
        self.waiting: ServiceClassQueues[QueuedJob] = ServiceClassQueues()
        self._published: Counter[str] = Counter()
        """Number of sequences at the workers, by tenant."""
        self._published_flex = 0
        self._last_request: dict[str, float] = {}
        self._recheck: asyncio.TimerHandle | None = None

    def enter(self, job: Job) -> QueuedJob:
        entry = QueuedJob(self, job)
        self._note_request(job.tenant)
        self.waiting[job.service_class].push(job.tenant, entry)
        self._release_jobs()
        return entry

    def charge(self, job: Job, cost: float) -> None:
        self.waiting[job.service_class].charge(job.tenant, cost)

    def leave(self, entry: QueuedJob) -> None:
        job = entry.job
        if entry.released:
            self._count(job, -job.n)
        else:
            self.waiting[job.service_class].discard(job.tenant, entry)
        self._release_jobs()

    def _release_jobs(self) -> None:
        """Release all jobs for which there is capacity."""
        capacity = self._capacity()
        while len(self.waiting) and (entry := self._next(capacity)) is not None:
            self.waiting[entry.job.service_class].take(entry.job.tenant, entry)
            self._count(entry.job, entry.job.n)
            entry.release()
        if len(self.waiting) and self._recheck is None:
            self._recheck = asyncio.get_running_loop().call_later(RECHECK_INTERVAL, self._check_again)

    def _check_again(self) -> None:
        self._recheck = None
        self._release_jobs()

    def _next(self, capacity: _Capacity | None) -> QueuedJob | None:
        if capacity is None:
            return self.waiting.peek(slots=1, flex_slots=0)
        if self._published.total() >= capacity.with_prefetch:
            return None
        tenant_limit = self._tenant_limit(capacity)

        def is_within_limit(entry: QueuedJob) -> bool:
            published = self._published[entry.job.tenant]
            return not published or published + entry.job.n <= tenant_limit

        entry = self.waiting.peek(slots=capacity.slots, flex_slots=self._published_flex, is_eligible=is_within_limit)
        if entry is None or not self._published or self._published.total() + entry.job.n <= capacity.with_prefetch:
            return entry
        return None  # its choices do not all fit yet, and no other job may overtake it

    def _tenant_limit(self, capacity: _Capacity) -> int:
        """Return the number of sequences that one tenant may have at the workers."""
        if len(self._last_request) <= 1:
            return capacity.with_prefetch
        return max(1, capacity.slots - max(1, int(capacity.slots * RESERVED_SHARE)))

    def _count(self, job: Job, sequences: int) -> None:
        self._published[job.tenant] += sequences
        if self._published[job.tenant] <= 0:
            del self._published[job.tenant]
        if job.service_class is ServiceClass.FLEX:
            self._published_flex += sequences

    def _note_request(self, tenant: str) -> None:
        now = time.monotonic()
        self._last_request[tenant] = now
        if now - min(self._last_request.values()) > ACTIVITY_WINDOW:
            self._last_request = {
                tenant: at for tenant, at in self._last_request.items() if now - at <= ACTIVITY_WINDOW
            }
