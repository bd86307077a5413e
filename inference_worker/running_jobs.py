"""The jobs that a worker has taken and not ended: what each has delivered, and where it is to be found.

Plain tables; no queue is read and nothing is sent from here.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import structlog

from inference_worker.engine_protocol import GenerationRequest
from inference_worker.text.output_text import OutputText, Release
from router.messages import Job, Usage
from router.transport.base import Delivery

REMEMBERED_SECONDS = 600.0
REMEMBERED_IDS = 100_000

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class RunningJob:
    """One attempt at one job. `attempt` is also its id in the engine."""

    job: Job
    delivery: Delivery
    attempt: str = field(default_factory=lambda: str(uuid.uuid4()))
    taken: float = field(default_factory=time.monotonic)
    request: GenerationRequest | None = None
    """Set when it has been prepared."""
    outputs: list[OutputText] = field(default_factory=list)
    ids: list[list[int]] = field(default_factory=list)
    """Per choice, the token ids that were released to the gateway by this attempt."""
    cached_tokens: int = 0
    engine_deaths: int = 0
    """How often the engine died with this job in it."""
    first_token: float | None = None
    last_token: float | None = None
    ended: bool = False
    """Whether its terminal has been said, or it was handed back."""

    @property
    def log(self) -> structlog.stdlib.BoundLogger:
        """A logger that names the job and the trace that it belongs to."""
        trace = self.delivery.headers.get("traceparent")
        logger: structlog.stdlib.BoundLogger = _log.bind(job=self.job.id, attempt=self.attempt)
        return logger.bind(traceparent=trace) if trace else logger

    @property
    def started(self) -> bool:
        """Whether the engine has been heard of this attempt: then it can't simply be submitted again."""
        return self.last_token is not None

    def accept(self, choice: int, release: Release) -> None:
        """Count what is released to the gateway."""
        self.ids[choice].extend(release.ids)

    @property
    def finished(self) -> bool:
        """Whether all choices have ended."""
        return bool(self.outputs) and all(output.finished for output in self.outputs)

    @property
    def usage(self) -> Usage:
        """Tokens so far: those released, on every choice."""
        prompt_tokens = len(self.request.prompt_ids) if self.request else 0
        return Usage(
            prompt_tokens=prompt_tokens,
            completion_tokens=sum(map(len, self.ids)),
            cached_tokens=min(self.cached_tokens, prompt_tokens),
        )

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the released ids as compact JSON, a list per choice: `[[1,2],[3]]`."""
        return hashlib.sha256(msgspec.json.encode(self.ids)).hexdigest()


class RunningJobs:
    """Attempts by their id, by their job and by their gateway."""

    def __init__(self) -> None:
        self._by_attempt: dict[str, RunningJob] = {}
        self._by_job: dict[str, RunningJob] = {}

    def __len__(self) -> int:
        return len(self._by_attempt)

    def __iter__(self) -> Iterator[RunningJob]:
        return iter(list(self._by_attempt.values()))

    def add(self, running: RunningJob) -> None:
        """Remember an attempt."""
        self._by_attempt[running.attempt] = running
        self._by_job[running.job.id] = running

    def remove(self, running: RunningJob) -> None:
        """Forget an attempt."""
        self._by_attempt.pop(running.attempt, None)
        if self._by_job.get(running.job.id) is running:
            del self._by_job[running.job.id]

    def attempt(self, attempt: str) -> RunningJob | None:
        """The attempt with this id."""
        return self._by_attempt.get(attempt)

    def job(self, job_id: str) -> RunningJob | None:
        """The current attempt at this job."""
        return self._by_job.get(job_id)

    def of_gateway(self, gateway: str) -> list[RunningJob]:
        """Every attempt for this gateway."""
        return [running for running in self if running.job.reply_to == gateway]


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
