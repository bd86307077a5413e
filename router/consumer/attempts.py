"""State of a worker's attempts (runs of jobs), a table of them, and ids of recently settled or cancelled jobs."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec
import structlog

from router.diagnosis import Diagnosis
from router.messages import (
    Cancelled,
    Delta,
    Failed,
    Finished,
    Job,
    Outcome,
    Resume,
    Step,
    Terminal,
    Usage,
    UsagePart,
    UsageRecord,
)
from router.transport.base import Delivery

REMEMBERED_PERIOD = 600.0
"""Seconds for which the id of an ended job is remembered, to acknowledge its redelivery."""
REMEMBERED_IDS = 100_000

OUTCOMES: dict[type[Terminal], Outcome] = {
    Finished: Outcome.FINISHED,
    Failed: Outcome.FAILED,
    Cancelled: Outcome.CANCELLED,
}
"""Outcome of a job by the class of its terminal reply."""

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class Attempt(ABC):
    """One attempt at a job. Subclasses record the output."""

    job: Job
    delivery: Delivery
    attempt_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    received_at: float = field(default_factory=time.monotonic)
    """Monotonic time of the delivery."""
    ended: bool = False
    """Whether its terminal reply was sent, or it was dropped without one."""
    solo: bool = False
    """Whether it is suspected of crashing workers and must run without unproven jobs beside it."""
    progressed: bool = False
    """Whether it has made progress since it started; such an attempt is not suspected of a crash."""

    crashes: int = 0
    """Consecutive worker or engine crashes with this job, without progress in between."""
    diagnosis: Diagnosis | None = None
    """Why the job failed for good, if it did; it then goes to the diagnosed queue."""

    @property
    def may_resume(self) -> bool:
        """Whether the job's gateway must decide first how to run the job, because another attempt may have run it.

        An earlier attempt may have processed it, or it was opened with output that this worker can't continue.
        """
        again = self.delivery.redelivered or self.delivery.delivery_count > 0 or self.job.copy_number > 0
        return again or (self.job.begun and not self.continues)

    @property
    def continues(self) -> bool:
        """Whether this worker can continue an answer of which another worker has delivered a part."""
        return True

    @property
    @abstractmethod
    def usage(self) -> Usage:
        """Usage of this attempt so far: prompt tokens, and tokens of output sent to the gateway, over all choices."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """SHA-256 (hex) of the output that this attempt sent to the gateway, for the usage record."""

    @property
    def parts(self) -> list[UsagePart]:
        """Usage of the job's steps so far, one part per model or tool, those of earlier attempts included."""
        return [part for step in self.job.steps for part in step.parts]

    def continue_after(self, resume: Resume) -> None:
        """Make the attempt continue an answer: add to its job what earlier attempts delivered, from `resume`."""
        self.job = msgspec.structs.replace(
            self.job,
            delivered=resume.delivered,
            ended=resume.ended,
            embedded=resume.embedded,
            cached_tokens=resume.cached_tokens,
            texts=resume.texts,
            text_positions=resume.text_positions,
            steps=resume.steps,
        )

    def usage_record(self, terminal: Terminal, worker: str) -> UsageRecord:
        """Return the usage record, a message to billing, of the attempt that `worker` ended with reply `terminal`."""
        return UsageRecord(
            job=self.job.id,
            attempt=self.attempt_id,
            tenant=self.job.tenant,
            model=self.job.model,
            worker=worker,
            outcome=OUTCOMES[type(terminal)],
            usage=self.usage,
            at=time.time(),
            digest=self.digest,
            error=terminal.code if isinstance(terminal, Failed) else None,
            parts=self.parts,
        )

    @property
    def log(self) -> structlog.stdlib.BoundLogger:
        """Logger for messages about this attempt, with job id, attempt id and trace context."""
        trace = self.delivery.headers.get("traceparent")
        logger: structlog.stdlib.BoundLogger = _log.bind(job=self.job.id, attempt=self.attempt_id)
        return logger.bind(traceparent=trace) if trace else logger


@dataclass(eq=False)
class SteppedAttempt(Attempt):
    """One attempt at a job whose answer comes after steps. Subclasses count the answer's tokens in `tokens`."""

    steps: list[Step] = field(default_factory=list)
    """Ended steps, those of earlier attempts included."""
    tokens: int = 0
    """Tokens of the answer, those of earlier attempts included."""

    def __post_init__(self) -> None:
        self._take_delivered()

    @property
    def position(self) -> int:
        """Position at which the answer's next delta starts: each ended step and each token takes one."""
        return len(self.steps) + self.tokens

    @property
    def parts(self) -> list[UsagePart]:
        """Usage of the answer's ended steps by model, those of earlier attempts included."""
        return [part for step in self.steps for part in step.parts]

    def continue_after(self, resume: Resume) -> None:
        """Make the attempt continue after the steps and output that earlier attempts delivered, from `resume`."""
        super().continue_after(resume)
        self._take_delivered()

    def release_step(self, step: Step) -> Delta:
        """Return the reply (delta) that shows a step to the client.

        A step that has ended is recorded as delivered and counts as progress: the attempt need not run solo any more.
        """
        ended = step.state.ended
        delta = Delta(
            job_id=self.job.id,
            attempt_id=self.attempt_id,
            start=self.position,
            token_ids=[],
            untokenised_positions=int(ended),
            step=step,
        )
        if ended:
            self.steps.append(step)
            self.progressed, self.solo = True, False
        return delta

    def _take_delivered(self) -> None:
        self.steps = list(self.job.steps)
        self.tokens = self.job.delivered_positions(0) - len(self.steps)


T = TypeVar("T", bound=Attempt)


class AttemptTable(Generic[T]):
    """Running attempts of one consumer, by attempt id, job id and gateway."""

    def __init__(self) -> None:
        self._by_id: dict[str, T] = {}
        self._by_job: dict[str, list[T]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._by_id.values()))

    def add(self, attempt: T) -> None:
        """Add one running attempt, which becomes the latest attempt of its job."""
        self._by_id[attempt.attempt_id] = attempt
        self._by_job.setdefault(attempt.job.id, []).append(attempt)

    def remove(self, attempt: T) -> None:
        """Remove one attempt that no longer runs; does nothing if the table lacks it."""
        self._by_id.pop(attempt.attempt_id, None)
        others = [each for each in self._by_job.pop(attempt.job.id, []) if each is not attempt]
        if others:
            self._by_job[attempt.job.id] = others

    def by_id(self, attempt_id: str) -> T | None:
        """Return the running attempt with this attempt id; `None` if there is none."""
        return self._by_id.get(attempt_id)

    def of_job(self, job_id: str, reply_to: str = "") -> T | None:
        """Return the latest running attempt at a job, or `None`.

        `reply_to` is the process that gets the replies, as assistants may open child jobs with equal ids; "" matches
        any.
        """
        attempts = reversed(self._by_job.get(job_id, []))
        return next((each for each in attempts if reply_to in ("", each.job.reply_to)), None)

    def of_gateway(self, gateway: str) -> list[T]:
        """Return all running attempts whose replies go to the reply inbox of `gateway`; empty if there are none."""
        return [attempt for attempt in self if attempt.job.reply_to == gateway]


class RecentJobIds:
    """Set of job ids kept for 10 minutes: jobs that were settled, or cancelled perhaps before they arrived."""

    def __init__(self) -> None:
        self._ids: OrderedDict[tuple[str, str], float] = OrderedDict()

    def add(self, job_id: str, reply_to: str = "") -> None:
        """Add a job id, or renew its time; ids of over 10 minutes ago, or too many, are dropped.

        With `reply_to`, only the job whose replies go to that process is meant.
        """
        now = time.monotonic()
        self._ids[job_id, reply_to] = now
        self._ids.move_to_end((job_id, reply_to))
        while self._ids and (
            len(self._ids) > REMEMBERED_IDS or now - next(iter(self._ids.values())) > REMEMBERED_PERIOD
        ):
            self._ids.popitem(last=False)

    def __contains__(self, job: Job) -> bool:
        added = max(self._ids.get((job.id, reply_to), float("-inf")) for reply_to in ("", job.reply_to))
        return time.monotonic() - added <= REMEMBERED_PERIOD
