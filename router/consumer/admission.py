"""Whose turn it is: which class's and which tenant's job is begun when there is room.

Each class has its own queue and consumer, and each may have all places when it is alone (a fixed split
would leave room unused). When classes compete, priority goes first, then default; flex has a floor, so that a
batch is slowed but never starved
(docs/design/queue-topology.md#fairness). Within a class tenants go in the order of what they have had
(`router/fair_line.py`). A job that is suspected of bringing down what runs it is tried: until
it has got further, only jobs run beside it that have, so that it is plain which one it was
(docs/design/queue-topology.md#poison). Plain
Python; does not know the queue.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from router.consumer.taken_jobs import TakenJob
from router.fair_line import OUTPUT_WEIGHT, PROMPT_WEIGHT, FairLines
from router.messages import ServiceClass

T = TypeVar("T", bound=TakenJob)


class Admission(Generic[T]):
    """Jobs waiting for a place, and the places."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._waiting: FairLines[T] = FairLines()
        self._admitted: dict[T, ServiceClass] = {}

    def queue(self, taken: T) -> None:
        """Let a job wait for a place."""
        self._waiting[taken.job.service_class].push(taken.job.tenant, taken)

    def admit(self) -> T | None:
        """Give the next job a place; `None`: nobody waits, or no place is free."""
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
        """Count tokens that were read or generated for a job: its tenant's next ones wait the longer for them."""
        cost = prompt * PROMPT_WEIGHT + output * OUTPUT_WEIGHT
        self._waiting[taken.job.service_class].charge(taken.job.tenant, cost)

    def _suspect(self) -> T | None:
        """One that is to be tried: all others wait for that, so that it is not suspected for long."""
        return next((taken for taken in self._waiting if taken.solo), None)

    def _give_place(self, taken: T) -> T:
        self._waiting[taken.job.service_class].take(taken.job.tenant, taken)
        self._admitted[taken] = taken.job.service_class
        return taken

    def leave(self, taken: T) -> None:
        """Give a place back, or stop waiting."""
        if self._admitted.pop(taken, None) is None:
            self._waiting[taken.job.service_class].discard(taken.job.tenant, taken)

    def has_place(self, taken: T) -> bool:
        """Whether a job was admitted."""
        return taken in self._admitted

    @property
    def admitted(self) -> int:
        """Jobs with a place."""
        return len(self._admitted)

    @property
    def waiting(self) -> int:
        """Jobs without a place."""
        return len(self._waiting)
