"""When an engine that goes on is better started afresh: steps have failed in it again and again
(docs/design/reliability-contract.md#F5).

Each fault was kept to its request, but what it left behind (a torn allocator, a damaged cache) is anybody's guess. Who
is faulty on purpose must not keep everybody waiting for a model to load, so a young engine is left alone. Does not know
the engine.
"""

from __future__ import annotations

import time
from collections import deque

FAULTS = 3
FAULTS_WITHIN = 60.0
"""Seconds."""
YOUNG_SECONDS = 600.0


class Wear:
    """Of one engine after the other."""

    def __init__(self) -> None:
        self._faults: deque[float] = deque(maxlen=FAULTS)
        self._started = time.monotonic()

    def renewed(self) -> None:
        """The engine is a fresh one."""
        self._faults.clear()
        self._started = time.monotonic()

    def fault(self) -> None:
        """A request could not be computed."""
        self._faults.append(time.monotonic())

    @property
    def worn(self) -> bool:
        """Whether it should be started afresh."""
        often = len(self._faults) == FAULTS and self._faults[-1] - self._faults[0] <= FAULTS_WITHIN
        return often and time.monotonic() - self._started >= YOUNG_SECONDS
