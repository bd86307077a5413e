"""Reads the replies to one request's jobs until the request's deadline, or until no worker can be answering them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

from router.bus import Bus
from router.model_registry import Availability, ModelRegistry
from router.producer.errors import DeadlinePassed, ModelUnavailable, UpstreamUnreachable, WorkerLost
from router.producer.recovery_driver import OpenJob
from router.producer.recovery_events import JobState
from router.producer.unread_replies import Arrival
from router.timings import Timings
from router.transport.base import ConnectionState

UNATTENDED = (JobState.ORPHANED, JobState.WAITING)
"""States of a job that no worker runs."""


class ReplySource(NamedTuple):
    """What reading replies needs: the broker connection, the known workers, and how long silence is tolerated."""

    bus: Bus
    models: ModelRegistry
    timings: Timings
    no_worker_timeout: float
    """Seconds without a live worker after which a silent request fails."""


class ReplyReader:
    """Reads the replies to one request's open jobs, which have one model, one deadline and shared unread replies."""

    def __init__(self, source: ReplySource, jobs: Sequence[OpenJob]) -> None:
        job = jobs[0].recovery.job
        self.opened = time.monotonic()
        """Monotonic time of the start."""
        self.unread = jobs[0].unread
        self._source = source
        self._jobs = jobs
        self._model = job.model
        self._heard = self.opened
        """Monotonic time of the last reply, or sight of a live or loading worker of the model."""
        self._broker_away = -math.inf
        """Monotonic time at which the broker was last seen unavailable."""
        self._deadline = self.opened + max(0.0, job.deadline - time.time())
        self._begin_by = self.opened + max(0.0, (job.begin_by or job.deadline) - time.time())

    @property
    def remaining(self) -> float:
        """Seconds until the deadline of the request's jobs, at least 0."""
        return max(0.0, self._deadline - time.monotonic())

    @property
    def is_begun(self) -> bool:
        """Whether a worker has started one of the request's jobs."""
        return any(job.recovery.attempt_id for job in self._jobs)

    @property
    def is_served(self) -> bool:
        """Whether live workers can start or continue the request's jobs, or will once they have loaded the model."""
        models = self._source.models
        model = models.find(self._model)
        if model is None or not model.alive:
            return False
        begun = [job.recovery for job in self._jobs if job.recovery.output.begun and not job.recovery.ended]
        lost = [each for each in begun if each.state in UNATTENDED or not models.is_alive(each.worker_id or "")]
        return not lost or model.availability_begun is not Availability.NONE

    async def arrivals(self) -> list[Arrival]:
        """Wait up to a second for unread replies to the request's jobs.

        Return all in order of arrival, or an empty list.

        Raises:
            GenerationError: the jobs can't be answered any more, and all earlier replies were returned.
        """
        remaining = (self._deadline if self.is_begun else self._begin_by) - time.monotonic()
        if remaining <= 0:
            raise DeadlinePassed if self.is_begun or self.is_served else ModelUnavailable()
        if await self.unread.wait(min(remaining, self._source.timings.silence_check_interval)):
            self._heard = time.monotonic()
            return self.unread.take_all()
        self._check_silence()
        return []

    def _check_silence(self) -> None:
        """Fail a request that no worker can be working on; while the broker is away, wait longer to find out."""
        bus, _, timings, limit = self._source
        now = time.monotonic()
        if self.is_served:
            self._heard = now
        silence = now - self._heard
        if bus.state is not ConnectionState.UP:
            self._broker_away = now
            if silence >= timings.unreachable_after:
                raise UpstreamUnreachable
            return
        if silence < limit:
            return
        if now - max(self._broker_away, bus.lost_at) < limit:
            return  # the workers have to reconnect too
        raise WorkerLost if any(job.recovery.worker_id for job in self._jobs) else ModelUnavailable()
