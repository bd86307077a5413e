"""The jobs that a consumer has taken and not ended, and where each is to be found.

Plain tables; no queue is read and nothing is sent from here.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import structlog

from router.diagnosis import Diagnosis
from router.messages import Job, Usage
from router.transport.base import Delivery

REMEMBERED_SECONDS = 600.0
REMEMBERED_IDS = 100_000

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class TakenJob(ABC):
    """One attempt at one job. What it has delivered so far is its kind's to know."""

    job: Job
    delivery: Delivery
    attempt: str = field(default_factory=lambda: str(uuid.uuid4()))
    taken: float = field(default_factory=time.monotonic)
    ended: bool = False
    """Whether its terminal has been said, or it was let go."""
    solo: bool = False
    """Whether it is suspected of bringing down what runs it, and to be tried."""
    moved: bool = False
    """Whether it has got further since it was begun: what has can't be suspected."""

    crashes: int = 0
    """How often what ran it died with it in a row, it getting no further in between."""
    diagnosis: Diagnosis | None = None
    """Why it was given up, if it was: then it is kept for people to look at."""

    @property
    def again(self) -> bool:
        """Whether somebody else may have had the job before: its gateway has to say how it goes on."""
        return self.delivery.redelivered or self.delivery.delivery_count > 0 or self.job.attempt > 0

    @property
    @abstractmethod
    def usage(self) -> Usage:
        """Tokens so far: those released to the gateway, on every choice."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """SHA-256 (hex) of what was released to the gateway."""

    @property
    def log(self) -> structlog.stdlib.BoundLogger:
        """A logger that names the job and the trace that it belongs to."""
        trace = self.delivery.headers.get("traceparent")
        logger: structlog.stdlib.BoundLogger = _log.bind(job=self.job.id, attempt=self.attempt)
        return logger.bind(traceparent=trace) if trace else logger


T = TypeVar("T", bound=TakenJob)


class TakenJobs(Generic[T]):
    """Attempts by their id, by their job and by their gateway."""

    def __init__(self) -> None:
        self._by_attempt: dict[str, T] = {}
        self._by_job: dict[str, T] = {}

    def __len__(self) -> int:
        return len(self._by_attempt)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._by_attempt.values()))

    def add(self, taken: T) -> None:
        """Remember an attempt."""
        self._by_attempt[taken.attempt] = taken
        self._by_job[taken.job.id] = taken

    def remove(self, taken: T) -> None:
        """Forget an attempt."""
        self._by_attempt.pop(taken.attempt, None)
        if self._by_job.get(taken.job.id) is taken:
            del self._by_job[taken.job.id]

    def attempt(self, attempt: str) -> T | None:
        """The attempt with this id."""
        return self._by_attempt.get(attempt)

    def job(self, job_id: str) -> T | None:
        """The current attempt at this job."""
        return self._by_job.get(job_id)

    def of_gateway(self, gateway: str) -> list[T]:
        """Every attempt for this gateway."""
        return [taken for taken in self if taken.job.reply_to == gateway]


class RecentJobs:
    """Ids remembered for a while: of cancelled jobs, which a cancel may overtake, and of done ones."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, float] = OrderedDict()

    def add(self, job_id: str) -> None:
        """Remember a job."""
        now = time.monotonic()
        self._ids[job_id] = now
        self._ids.move_to_end(job_id)
        while self._ids and (
            len(self._ids) > REMEMBERED_IDS or now - next(iter(self._ids.values())) > REMEMBERED_SECONDS
        ):
            self._ids.popitem(last=False)

    def __contains__(self, job_id: str) -> bool:
        return time.monotonic() - self._ids.get(job_id, float("-inf")) <= REMEMBERED_SECONDS
