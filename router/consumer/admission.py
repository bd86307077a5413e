"""Admission of delivered jobs to a worker's slots, by service class and fair among tenants.

Each class has its own queue and may use all slots while it is alone (a fixed split would leave capacity unused). When
classes compete, priority goes first, then default; flex has a floor, so that batches are slowed but never starve
(docs/design/queue-topology.md#fairness). Within a class tenants are ordered by the tokens they were served
(`router/fair_line.py`). A job that is suspected of crashing workers runs solo: until it makes progress, only jobs that
have made progress run beside it, so that a further crash is attributed to it (docs/design/queue-topology.md#poison).
"""

from __future__ import annotations

from typing import Generic, TypeVar

from router.consumer.taken_jobs import TakenJob
from router.fair_line import OUTPUT_WEIGHT, PROMPT_WEIGHT, FairLines
from router.messages import ServiceClass

T = TypeVar("T", bound=TakenJob)


class Admission(Generic[T]):
    """Queue of jobs that wait for a slot, and the jobs that hold one."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._waiting: FairLines[T] = FairLines()
        self._admitted: dict[T, ServiceClass] = {}

    def queue(self, taken: T) -> None:
        """Queue a job for a slot."""
        self._waiting[taken.job.service_class].push(taken.job.tenant, taken)

    def admit(self) -> T | None:
        """Give the next job a slot and return it; `None` if no job is waiting or no slot is free."""
        if not len(self._waiting) or any(taken.solo for taken in self._admitted):
            return None
        if (suspect := self._suspect()) is not None:
            proven = all(taken.moved for taken in self._admitted) and len(self._admitted) < self._places
            return self._give_place(suspect) if proven else None
        if len(self._admitted) >= self._places:
            return None
        flex = list(self._admitted.values()).count(ServiceClass.FLEX)
        taken = self._waiting.peek(places=self._places, flex=flex)
        return None if taken is None else self._give_place(taken)

    def served(self, taken: T, *, prompt: int = 0, output: int = 0) -> None:
        """Charge a job's tenant for prompt tokens computed and output tokens generated."""
        cost = prompt * PROMPT_WEIGHT + output * OUTPUT_WEIGHT
        self._waiting[taken.job.service_class].charge(taken.job.tenant, cost)

    def _suspect(self) -> T | None:
        """Return a waiting solo job: it goes before all other jobs, so that it does not stay suspected for long."""
        return next((taken for taken in self._waiting if taken.solo), None)

    def _give_place(self, taken: T) -> T:
        self._waiting[taken.job.service_class].take(taken.job.tenant, taken)
        self._admitted[taken] = taken.job.service_class
        return taken

    def leave(self, taken: T) -> None:
        """Release a job's slot, or remove it from the queue."""
        if self._admitted.pop(taken, None) is None:
            self._waiting[taken.job.service_class].discard(taken.job.tenant, taken)

    def has_place(self, taken: T) -> bool:
        """Whether a job holds a slot."""
        return taken in self._admitted

    @property
    def admitted(self) -> int:
        """Number of jobs that hold a slot."""
        return len(self._admitted)

    @property
    def waiting(self) -> int:
        """Number of jobs that wait for a slot."""
        return len(self._waiting)
