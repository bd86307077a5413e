"""Gives a worker's slots to its delivered jobs, by service class and fairly among tenants and requesters.

Each class has its own queue and may use all slots while it is alone (a fixed split would leave capacity unused). When
classes compete, priority goes first, then default; flex has a floor, so that batches are slowed but never starve
(docs/design/queue-topology.md#fairness). Where the engine preempts flex jobs, those beyond the floor take no slot from
the others. Within a class tenants, and the requesters of a tenant, are ordered by the
tokens they were served (`router/tenant_fair_queue.py`). A job that is suspected of crashing workers runs solo: until it
makes progress, only jobs that have made progress run beside it, so that a further crash is attributed to it
(docs/design/queue-topology.md#poison).
"""

from __future__ import annotations

from typing import Generic, TypeVar

from router.consumer.attempts import Attempt
from router.messages import ServiceClass
from router.tenant_fair_queue import OUTPUT_WEIGHT, PROMPT_WEIGHT, ServiceClassQueues, slots_in_the_way

T = TypeVar("T", bound=Attempt)


class Admission(Generic[T]):
    """Gives the slots of one worker to waiting jobs: queues the delivered jobs, and knows those that hold a slot."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self.preempts_flex = False
        """Whether jobs of other classes may start beyond the slots, in place of flex jobs."""
        self._waiting: ServiceClassQueues[T] = ServiceClassQueues()
        self._admitted: dict[T, ServiceClass] = {}

    def enqueue(self, attempt: T) -> None:
        """Add one delivered job to those that wait for a slot, in the queue of its class, tenant and requester."""
        self._waiting[attempt.job.service_class].push(attempt.job.tenant, attempt.job.requester, attempt)

    def admit(self) -> T | None:
        """Give a slot to the waiting job that is next in the fair order, and return it.

        `None` if none may start now.
        """
        if not len(self._waiting) or any(attempt.solo for attempt in self._admitted):
            return None
        if (suspect := self._suspect()) is not None:
            proven = all(attempt.progressed for attempt in self._admitted) and len(self._admitted) < self._slots
            return self._give_slot(suspect) if proven else None
        taken, flex = len(self._admitted), list(self._admitted.values()).count(ServiceClass.FLEX)

        def has_slot(attempt: T) -> bool:
            service_class = attempt.job.service_class if self.preempts_flex else ServiceClass.FLEX
            return slots_in_the_way(service_class, taken=taken, flex=flex, slots=self._slots) < self._slots

        attempt = self._waiting.peek(slots=self._slots, flex_slots=flex, is_eligible=has_slot)
        return None if attempt is None else self._give_slot(attempt)

    def charge(self, attempt: T, *, prompt: int = 0, output: int = 0) -> None:
        """Count a job's `prompt` and `output` tokens as served to its tenant and requester, who wait longer next."""
        cost = prompt * PROMPT_WEIGHT + output * OUTPUT_WEIGHT
        self._waiting[attempt.job.service_class].charge(attempt.job.tenant, attempt.job.requester, cost)

    def _suspect(self) -> T | None:
        """Return the waiting solo job with the most crashes, which goes before all other jobs.

        It must not run beside a job that crashes its engine after each first token, whose own count stays 1.
        """
        solo = (attempt for attempt in self._waiting if attempt.solo)
        return max(solo, key=lambda attempt: attempt.crashes, default=None)

    def _give_slot(self, attempt: T) -> T:
        self._waiting[attempt.job.service_class].take(attempt.job.tenant, attempt.job.requester, attempt)
        self._admitted[attempt] = attempt.job.service_class
        return attempt

    def release(self, attempt: T) -> None:
        """Free the slot of one ended job, or if it holds none remove it from the waiting jobs."""
        if self._admitted.pop(attempt, None) is None:
            self._waiting[attempt.job.service_class].discard(attempt.job.tenant, attempt.job.requester, attempt)

    def has_slot(self, attempt: T) -> bool:
        """Return whether one job holds a slot of this worker."""
        return attempt in self._admitted

    @property
    def admitted(self) -> int:
        """Number of jobs that hold a slot of this worker."""
        return len(self._admitted)

    @property
    def waiting(self) -> int:
        """Number of delivered jobs that wait for a slot of this worker."""
        return len(self._waiting)
