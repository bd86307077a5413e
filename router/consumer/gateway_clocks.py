"""Estimates the clock skew between this worker's machine and each gateway, whose clock sets the deadlines of jobs.

Skew is inferred from the creation times of jobs and two facts: no job arrives before it was created, and none is
delivered long after it expired, because the broker measures the time to live itself. Only a difference that these facts
can't explain is corrected. The correction is too large by the shortest queueing time seen, so that a worker rather
starts an expired job than drops a live one.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable

import structlog

from router.messages import Job

CLOCK_TOLERANCE = 5.0
"""Tolerated clock difference and delivery delay, in seconds."""
REMEMBERED_JOBS = 64
REMEMBERED_GATEWAYS = 64

_log = structlog.get_logger(__name__)


class GatewayClocks:
    """Estimates how far gateways' clocks differ from this machine's. `clock` returns this machine's Unix seconds."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._ages: OrderedDict[str, deque[tuple[float, float]]] = OrderedDict()
        self._skew: dict[str, float] = {}

    def observe(self, job: Job) -> None:
        """Update the skew of a job's gateway from the job's creation time; call it at a job's first delivery only."""
        ages = self._ages.setdefault(job.reply_to, deque(maxlen=REMEMBERED_JOBS))
        ages.append((self._clock() - job.created, job.deadline - job.created))
        self._ages.move_to_end(job.reply_to)
        if len(self._ages) > REMEMBERED_GATEWAYS:
            self._skew.pop(self._ages.popitem(last=False)[0], None)
        skew = _seconds_ahead(ages)
        if bool(skew) is not bool(self._skew.get(job.reply_to)):
            _log.warning(
                "clock skew detected" if skew else "clock skew gone", gateway=job.reply_to, seconds=round(skew)
            )
        self._skew[job.reply_to] = skew

    def now(self, gateway: str) -> float:
        """Return the present Unix time by the clock of `gateway`, as estimated, to compare with its jobs' deadlines."""
        return self._clock() - self._skew.get(gateway, 0.0)

    def deadline(self, job: Job) -> float:
        """Convert a job's deadline, set by its gateway's clock, to Unix time by this machine's clock."""
        return job.deadline + self._skew.get(job.reply_to, 0.0)


def _seconds_ahead(ages: deque[tuple[float, float]]) -> float:
    """Return the seconds by which this clock is ahead, from (age, time to live) pairs; 0 if the ages are plausible."""
    youngest = min(age for age, _ in ages)
    surely_ahead = max(age - longest for age, longest in ages) > CLOCK_TOLERANCE
    return youngest if youngest < -CLOCK_TOLERANCE or (surely_ahead and youngest > CLOCK_TOLERANCE) else 0.0
