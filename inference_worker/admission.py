"""Whose turn it is: which class's job goes to the engine when there is room.

Each class has its own queue and consumer, and each may hold the whole engine when it is alone (a fixed split
would leave room unused). When classes compete, priority goes first, then default; flex has a floor, so that a
batch is slowed but never starved (PROMISES 2.8). Plain Python; does not know the queue.
"""

from __future__ import annotations

import math
from collections import Counter, deque

from inference_worker.running_jobs import RunningJob
from router.messages import ServiceClass

LOOK_AHEAD = 0.05
"""Part of the engine's sequences that is admitted beyond them, so that a freed place is filled at the next step."""
FLEX_FLOOR = 0.125
"""Part of the engine's places that flex gets while others wait."""


def capacity(max_num_seqs: int) -> int:
    """Jobs to hold for an engine of so many sequences; also the prefetch of each consumer."""
    return max_num_seqs + max(1, math.ceil(max_num_seqs * LOOK_AHEAD))


class Admission:
    """Jobs waiting for a place, and the places."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._flex_floor = max(1, int(places * FLEX_FLOOR))
        self._waiting: dict[ServiceClass, deque[RunningJob]] = {each: deque() for each in ServiceClass}
        self._admitted: dict[RunningJob, ServiceClass] = {}

    def queue(self, running: RunningJob) -> None:
        """Let a job wait for a place."""
        self._waiting[running.job.service_class].append(running)

    def admit(self) -> RunningJob | None:
        """Give the next job a place; `None`: nobody waits, or no place is free."""
        service_class = self._next_class()
        if service_class is None or len(self._admitted) >= self._places:
            return None
        running = self._waiting[service_class].popleft()
        self._admitted[running] = service_class
        return running

    def leave(self, running: RunningJob) -> None:
        """Give a place back, or stop waiting."""
        if self._admitted.pop(running, None) is None and running in (queue := self._waiting[running.job.service_class]):
            queue.remove(running)

    def has_place(self, running: RunningJob) -> bool:
        """Whether a job was given to the engine."""
        return running in self._admitted

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
