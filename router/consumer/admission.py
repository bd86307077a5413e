"""Admission of delivered jobs to a worker's slots, by service class and fair among tenants and requesters.

Each class has its own queue and may use all slots while it is alone (a fixed split would leave capacity unused). When
classes compete, priority goes first, then default; flex has a floor, so that batches are slowed but never starve
(docs/design/queue-topology.md#fairness). Within a class tenants, and the requesters of a tenant, are ordered by the
tokens they were served (`router/tenant_fair_queue.py`). A job that is suspected of crashing workers runs solo: until it
makes progress, only jobs that have made progress run beside it, so that a further crash is attributed to it
(docs/design/queue-topology.md#poison).
"""

from __future__ import annotations

from typing import Generic, TypeVar

from router.consumer.attempts import Attempt
from router.messages import ServiceClass
from router.tenant_fair_queue import OUTPUT_WEIGHT, PROMPT_WEIGHT, ServiceClassQueues

T = TypeVar("T", bound=Attempt)


class Admission(Generic[T]):
    """Queue of jobs that wait for a slot, and the jobs that hold one."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._waiting: ServiceClassQueues[T] = ServiceClassQueues()
        self._admitted: dict[T, ServiceClass] = {}

    def enqueue(self, attempt: T) -> None:
        """Append a job to those of its class and requester that wait for a slot; `admit` gives it one."""
        self._waiting[attempt.job.service_class].push(attempt.job.tenant, attempt.job.requester, attempt)

    def admit(self) -> T | None:
        """Give a slot to the next job in the fair order, and return the job; `None` if none may start now."""
        if not len(self._waiting) or any(attempt.solo for attempt in self._admitted):
            return None
        if (suspect := self._suspect()) is not None:
            proven = all(attempt.progressed for attempt in self._admitted) and len(self._admitted) < self._slots
            return self._give_slot(suspect) if proven else None
        if len(self._admitted) >= self._slots:
            return None
        flex = list(self._admitted.values()).count(ServiceClass.FLEX)
        attempt = self._waiting.peek(slots=self._slots, flex_slots=flex)
        return None if attempt is None else self._give_slot(attempt)

    def charge(self, attempt: T, *, prompt: int = 0, output: int = 0) -> None:
        """Charge a job's tenant and requester for weighted tokens, so that their next jobs wait longer."""
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
        """Release a job's slot, or remove the job from the waiting ones if it has none."""
        if self._admitted.pop(attempt, None) is None:
            self._waiting[attempt.job.service_class].discard(attempt.job.tenant, attempt.job.requester, attempt)

    def has_slot(self, attempt: T) -> bool:
        """Whether a job holds a slot."""
        return attempt in self._admitted

    @property
    def admitted(self) -> int:
        """Number of jobs that hold a slot."""
        return len(self._admitted)

    @property
    def waiting(self) -> int:
        """Number of jobs that wait for a slot."""
        return len(self._waiting)
