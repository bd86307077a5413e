"""Fair queue of the gateway's admitted jobs, which are published to the broker when workers have capacity for them.

The broker's queues do not distinguish tenants, so they are kept almost empty: a gateway publishes no more jobs than run
at once plus the few that workers prefetch. The other jobs wait here, in the order of the service that each tenant, and
within a tenant each requester, has received (`router/tenant_fair_queue.py`) and with the workers' order of service
classes. While several tenants are active, a tenant gets more than an equal share only as long as an eighth of the slots
stays free for jobs of other tenants, which would otherwise wait until an answer ends. In the same way a requester
leaves an eighth of its tenant's slots free while several of the tenant's requesters are active.

The other gateways report their totals and their active requesters: each gateway may use the slots that the others
leave, and at least its equal share; the reserve is one for all gateways, so that two that know only each other's last
report do not take it both. Flex jobs beyond an eighth of the slots take none from the others, whom the workers' engines
let go first. A burst may come to several gateways at once: while others are active, a requester gets more
than a gateway's equal share only after the next reports.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from gateway.admission.active_requesters import ActiveRequesters, are_several
from gateway.admission.other_gateways import OtherGatewaysLoad
from router.messages import Delta, Drawn, Embedded, Job, Reply, Scored, ServiceClass, Started, Step
from router.model_registry import ModelInfo, ModelRegistry
from router.tenant_fair_queue import OUTPUT_WEIGHT, PROMPT_WEIGHT, ServiceClassQueues, slots_in_the_way
from router.usage_arithmetic import total

PREFETCH_SHARE = 0.05
"""Jobs that a fleet's workers prefetch beyond their slots, as a fraction of the slots."""
RESERVED_SHARE = 1 / 8
"""Fraction of the slots that a tenant does not get while other tenants are active, and a requester while others are."""
BURST_REPORT_DELAY = 1.0
"""Seconds into a requester's burst after which the other gateways' reports show whether it came to them too."""
RECHECK_INTERVAL = 0.5
"""Seconds between two checks for additional capacity while jobs wait."""


class QueuedJob:
    """One job's entry in the publish queue, from its admission to its end."""

    def __init__(self, queue: _ModelQueue, job: Job) -> None:
        self._queue = queue
        self.job = job
        self.left = False
        self._released = asyncio.Event()

    @property
    def released(self) -> bool:
        """Whether this job may be published to the broker, because the workers have capacity for it."""
        return self._released.is_set()

    async def wait(self) -> None:
        """Wait until this job may be published to the broker."""
        await self._released.wait()

    def release(self) -> None:
        """Allow this job to be published: wake the caller of `wait`."""
        self._released.set()

    def charge(self, reply: Reply) -> None:
        """Count one reply's tokens as service to the job's tenant and requester, whose next jobs are released later."""
        match reply:
            case Started():
                self._queue.charge(self.job, PROMPT_WEIGHT * reply.prompt_tokens)
            case Delta(step=Step() as step):
                used = total(part.usage for part in step.parts if part.model == self.job.model)
                cost = PROMPT_WEIGHT * used.prompt_tokens + OUTPUT_WEIGHT * used.completion_tokens
                self._queue.charge(self.job, cost)
            case Delta():
                self._queue.charge(self.job, OUTPUT_WEIGHT * reply.positions)
            case Embedded() | Scored():
                self._queue.charge(self.job, PROMPT_WEIGHT * reply.tokens)
            case Drawn():
                self._queue.charge(self.job, OUTPUT_WEIGHT * len(reply.images))

    def leave(self) -> None:
        """Remove this ended or cancelled job; its slots let waiting jobs be published. Idempotent."""
        if not self.left:
            self.left = True
            self._queue.leave(self)


class PublishQueue:
    """One gateway's waiting and published jobs, by model. Use it on the event loop only."""

    def __init__(
        self,
        models: ModelRegistry,
        other_gateways: Callable[[str], OtherGatewaysLoad] = lambda _model: OtherGatewaysLoad(),
    ) -> None:
        self._models = models
        self._other_gateways = other_gateways
        self._queues: dict[str, _ModelQueue] = {}

    @property
    def waiting(self) -> int:
        """Number of this gateway's jobs, of all models, that wait for capacity to be published."""
        return sum(len(queue.waiting) for queue in self._queues.values())

    def active_requesters(self) -> dict[str, ActiveRequesters]:
        """Return the requesters that sent this gateway a request within the last minute, by model."""
        return {model: queue.active for model, queue in self._queues.items()}

    def enter(self, job: Job) -> QueuedJob:
        """Queue one admitted job, and release it at once if there is capacity; return its entry.

        Call `leave` on the entry when the job ends.
        """
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
    with_reserve: int
    """Number of slots if an eighth of the fleet's stays free."""
    with_prefetch: int
    others: OtherGatewaysLoad
    share: int
    """Number of slots if all gateways that are alive had the same."""
    for_flex: int
    """The same as `with_prefetch` for flex jobs, which do not take the slots of other gateways' flex jobs."""


def _capacity(model: ModelInfo, others: OtherGatewaysLoad) -> _Capacity:
    share = math.ceil(model.capacity / (others.gateways + 1))
    elsewhere = slots_in_the_way(
        ServiceClass.DEFAULT, taken=others.sequences, flex=others.flex_sequences, slots=model.capacity
    )
    slots = max(share, model.capacity - elsewhere)
    with_reserve = max(_without_reserve(share), _without_reserve(model.capacity) - elsewhere)
    prefetch = max(model.workers, math.ceil(slots * PREFETCH_SHARE))
    alive_share = math.ceil(model.capacity / (others.alive + 1))
    for_flex = max(share, model.capacity - others.sequences) + prefetch
    return _Capacity(slots, with_reserve, slots + prefetch, others, alive_share, for_flex)


def _without_reserve(slots: int) -> int:
    """Return the number of `slots` that one tenant or requester may use while others are active."""
    return max(1, slots - max(1, int(slots * RESERVED_SHARE)))


def _limit(bound: int, slots: int, published: Counter[str], name: str) -> int:
    """Return the most sequences for `name`: its equal share of the `slots`, or more while `bound` is not reached.

    `published`: the numbers of sequences of all that have any, by name. Never more than `bound` for one.
    """
    others = published.total() - published[name]
    return min(bound, max(slots // len(published), bound - others))


class _Published:
    """Sequences at the workers of a model: those of the class flex, or those of all others."""

    def __init__(self) -> None:
        self.by_tenant: Counter[str] = Counter()
        """Number of sequences, by tenant."""
        self.by_requester: dict[str, Counter[str]] = {}
        """Number of sequences of each tenant, by requester."""
        self.bursts: dict[tuple[str, str], tuple[float, int]] = {}
        """Begin of each requester's burst, and the number of sequences at the workers below which it has ended."""

    def count(self, job: Job, sequences: int) -> None:
        """Add a number of sequences of a job, negative when it has ended."""
        self.by_tenant[job.tenant] += sequences
        if self.by_tenant[job.tenant] <= 0:
            del self.by_tenant[job.tenant]
        requester = (job.tenant, job.requester)
        by_requester = self.by_requester.setdefault(job.tenant, Counter())
        by_requester[job.requester] += sequences
        if requester in self.bursts and by_requester[job.requester] < self.bursts[requester][1]:
            del self.bursts[requester]
        if by_requester[job.requester] <= 0:
            del by_requester[job.requester]
            self.bursts.pop(requester, None)
        if not by_requester:
            del self.by_requester[job.tenant]


class _ModelQueue:
    """The waiting and published jobs of one model."""

    def __init__(self, capacity: Callable[[], _Capacity | None]) -> None:
        """`capacity` returns the current capacity; `None`: unlimited."""
        self._capacity = capacity
        self.waiting: ServiceClassQueues[QueuedJob] = ServiceClassQueues()
        self.active = ActiveRequesters()
        self._non_flex, self._flex = _Published(), _Published()
        self._published_judged = 0
        """Number of searches at the workers whose paths another chat model grades."""
        self._recheck: asyncio.TimerHandle | None = None

    def enter(self, job: Job) -> QueuedJob:
        """Queue one job, release those that have capacity, and return the job's entry.

        A job that takes no slot is released at once, and does not count as work of its requester.
        """
        entry = QueuedJob(self, job)
        if not job.slots:
            entry.release()
            return entry
        self.active.note_request(job.tenant, job.requester)
        self.waiting[job.service_class].push(job.tenant, job.requester, entry)
        self._release_jobs()
        return entry

    def charge(self, job: Job, cost: float) -> None:
        """Add `cost`, weighted tokens served, to the counters of a job's tenant and requester."""
        self.waiting[job.service_class].charge(job.tenant, job.requester, cost)

    def leave(self, entry: QueuedJob) -> None:
        """Remove one job's entry, and release waiting jobs into its slots."""
        job = entry.job
        if entry.released:
            self._count(job, -job.slots)
        else:
            self.waiting[job.service_class].discard(job.tenant, job.requester, entry)
        self._release_jobs()

    def _release_jobs(self) -> None:
        """Release all jobs for which there is capacity."""
        capacity = self._capacity()
        while len(self.waiting) and (entry := self._next(capacity)) is not None:
            job = entry.job
            self.waiting[job.service_class].take(job.tenant, job.requester, entry)
            self._count(job, job.n)
            entry.release()
        if len(self.waiting) and self._recheck is None:
            self._recheck = asyncio.get_running_loop().call_later(RECHECK_INTERVAL, self._check_again)

    def _check_again(self) -> None:
        self._recheck = None
        self._release_jobs()

    def _next(self, capacity: _Capacity | None) -> QueuedJob | None:
        if capacity is None:
            return self.waiting.peek(slots=1, flex_slots=0)
        flex = self._flex.by_tenant.total()
        taken = self._non_flex.by_tenant.total() + flex

        def free_for(service_class: ServiceClass) -> int:
            in_the_way = slots_in_the_way(service_class, taken=taken, flex=flex, slots=capacity.slots)
            return (capacity.for_flex if service_class is ServiceClass.FLEX else capacity.with_prefetch) - in_the_way

        free = {each: free_for(each) for each in ServiceClass}
        if max(free.values()) <= 0:
            return None

        def is_within_limit(entry: QueuedJob) -> bool:
            return free[entry.job.service_class] > 0 and self._is_within_share(entry.job, capacity)

        entry = self.waiting.peek(slots=capacity.slots, flex_slots=flex, is_eligible=is_within_limit)
        if entry is None or not taken or entry.job.n <= free[entry.job.service_class]:
            return entry
        return None  # its choices do not all fit yet, and no other job may overtake it

    def _is_within_share(self, job: Job, capacity: _Capacity) -> bool:
        """Return whether a job leaves enough slots to other tenants, to other requesters and to its judge."""
        if _is_judged(job) and self._published_judged >= max(1, capacity.share // 2):
            return False
        active, others = self.active.by_tenant, capacity.others.active
        several_tenants = are_several(active.keys(), others.keys())
        tenant_bound = capacity.with_reserve if several_tenants else capacity.with_prefetch
        requester_bound = _without_reserve(capacity.with_reserve) if several_tenants else capacity.with_reserve
        of_class = self._of(job)
        published = of_class.by_tenant[job.tenant]
        if published and published + job.n > _limit(tenant_bound, capacity.slots, of_class.by_tenant, job.tenant):
            return False
        by_requester = of_class.by_requester.get(job.tenant, Counter())
        published = by_requester[job.requester]
        if not published or not are_several(active.get(job.tenant, ()), others.get(job.tenant, ())):
            return True
        if published + job.n > _limit(requester_bound, capacity.slots, by_requester, job.requester):
            return False
        return published + job.n <= _without_reserve(capacity.share) or self._burst_is_reported(job, capacity)

    def _burst_is_reported(self, job: Job, capacity: _Capacity) -> bool:
        """Whether the other gateways have reported since the job's requester exceeded this gateway's equal share."""
        bursts = self._of(job).bursts
        began, _ = bursts.setdefault((job.tenant, job.requester), (time.monotonic(), capacity.share // 2))
        return capacity.others.reported >= began + BURST_REPORT_DELAY

    def _of(self, job: Job) -> _Published:
        return self._flex if job.service_class is ServiceClass.FLEX else self._non_flex

    def _count(self, job: Job, sequences: int) -> None:
        self._of(job).count(job, sequences)
        if _is_judged(job):
            self._published_judged += sequences


def _is_judged(job: Job) -> bool:
    """Return whether a job keeps its slot while it waits for slots of another chat model, which grades its paths.

    Two models whose slots are all held by such jobs, each graded by the other, would wait for each other.
    """
    return job.search is not None and job.search.judge
