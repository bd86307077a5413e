"""What time it is by a gateway's clock: deadlines are written by it, and the clock of this machine may be wrong.

Jobs say when they were made. What is sure of two clocks follows from two facts: no job is here before it was made, and
none is delivered long after its time in the queue is over, for the broker, which counts that on its own, drops it
then. Only a difference that these can't explain is taken off; it is then overestimated by the shortest time that a job
has waited, so that a job is rather begun in vain than dropped in vain. Does not know what becomes of a job.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable

import structlog

from router.messages import Job

SLACK_SECONDS = 5.0
"""That clocks may differ by, and deliveries be late by, without saying anything."""
REMEMBERED_JOBS = 64
REMEMBERED_GATEWAYS = 64

_log = structlog.get_logger(__name__)


class Clocks:
    """One consumer's view of its gateways' clocks. `clock` gives this machine's Unix seconds."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._ages: OrderedDict[str, deque[tuple[float, float]]] = OrderedDict()
        self._off: dict[str, float] = {}

    def hear(self, job: Job) -> None:
        """A job is here for the first time."""
        ages = self._ages.setdefault(job.reply_to, deque(maxlen=REMEMBERED_JOBS))
        ages.append((self._clock() - job.created, job.deadline - job.created))
        self._ages.move_to_end(job.reply_to)
        if len(self._ages) > REMEMBERED_GATEWAYS:
            self._off.pop(self._ages.popitem(last=False)[0], None)
        off = _difference(ages)
        if bool(off) is not bool(self._off.get(job.reply_to)):
            _log.warning("clocks differ" if off else "clocks agree again", gateway=job.reply_to, seconds=round(off))
        self._off[job.reply_to] = off

    def now(self, gateway: str) -> float:
        """Unix seconds by a gateway's clock."""
        return self._clock() - self._off.get(gateway, 0.0)


def _difference(ages: deque[tuple[float, float]]) -> float:
    """By how much we are ahead; 0 where the ages of jobs can be what they seem. Each comes with its longest."""
    youngest = min(age for age, _ in ages)
    surely_ahead = max(age - longest for age, longest in ages) > SLACK_SECONDS
    return youngest if youngest < -SLACK_SECONDS or (surely_ahead and youngest > SLACK_SECONDS) else 0.0
