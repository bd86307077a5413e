"""Whose turn it is: which class's job is begun when there is room.

Each class has its own queue and consumer, and each may have all places when it is alone (a fixed split
would leave room unused). When classes compete, priority goes first, then default; flex has a floor, so that a
batch is slowed but never starved (PROMISES 2.8). A job that is suspected of bringing down what runs it is tried: until
it has got further, only jobs run beside it that have, so that it is plain which one it was (PROMISES 2.7). Plain
Python; does not know the queue.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Generic, TypeVar

from router.consumer.taken_jobs import TakenJob
from router.messages import ServiceClass

T = TypeVar("T", bound=TakenJob)

FLEX_FLOOR = 0.125
"""Part of the places that flex gets while others wait."""


class Admission(Generic[T]):
    """Jobs waiting for a place, and the places."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._flex_floor = max(1, int(places * FLEX_FLOOR))
        self._waiting: dict[ServiceClass, deque[T]] = {each: deque() for each in ServiceClass}
        self._admitted: dict[T, ServiceClass] = {}

    def queue(self, taken: T) -> None:
        """Let a job wait for a place."""
        self._waiting[taken.job.service_class].append(taken)

    def admit(self) -> T | None:
        """Give the next job a place; `None`: nobody waits, or no place is free."""
        if any(taken.solo for taken in self._admitted):
            return None
        if (suspect := self._suspect()) is not None:
            proven = all(taken.moved for taken in self._admitted) and len(self._admitted) < self._places
            return self._give_place(suspect) if proven else None
        service_class = self._next_class()
        if service_class is None or len(self._admitted) >= self._places:
            return None
        return self._give_place(self._waiting[service_class][0])

    def _suspect(self) -> T | None:
        """One that is to be tried: all others wait for that, so that it is not suspected for long."""
        return next((taken for queue in self._waiting.values() for taken in queue if taken.solo), None)

    def _give_place(self, taken: T) -> T:
        self._waiting[taken.job.service_class].remove(taken)
        self._admitted[taken] = taken.job.service_class
        return taken

    def leave(self, taken: T) -> None:
        """Give a place back, or stop waiting."""
        if self._admitted.pop(taken, None) is None and taken in (queue := self._waiting[taken.job.service_class]):
            queue.remove(taken)

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
        return sum(map(len, self._waiting.values()))

    def _next_class(self) -> ServiceClass | None:
        flex_admitted = Counter(self._admitted.values())[ServiceClass.FLEX]
        if self._waiting[ServiceClass.FLEX] and flex_admitted < self._flex_floor:
            return ServiceClass.FLEX
        order = (ServiceClass.PRIORITY, ServiceClass.DEFAULT, ServiceClass.FLEX)
        return next((each for each in order if self._waiting[each]), None)
