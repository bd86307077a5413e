"""The jobs of one worker in its engine, whatever they ask of it: their way in, their ends, and the engine's own life.

Between the queue (`router/consumer/job_consumer.py`, whose handler it is) and the engine's process. What is asked of
the engine, and what its events mean to a gateway, is a subclass's business: `generator.py`, `embedding/embedder.py`.
Does not know acknowledgements or usage records.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import structlog

from inference_worker.engine_client import EngineClient
from inference_worker.engine_protocol import EngineEvent, EngineLoad, Ready, RequestFailed, StepReport
from inference_worker.errors import EngineDied, EngineStartFailed
from inference_worker.metrics import WorkerMetrics
from inference_worker.running_jobs import EngineJob
from inference_worker.stall_watch import StallWatch
from inference_worker.text.errors import PromptRejected
from inference_worker.wear import Wear
from router.consumer.job_consumer import JobConsumer
from router.messages import Cancelled, Failed, FailureCode, Finished, Job, PromptBounds, Started, Task, Terminal
from router.transport.base import Delivery

DEATHS_ALLOWED = 3
DEATHS_WITHIN = 60.0
"""An engine that dies more than `DEATHS_ALLOWED` times in so many seconds is not started again."""
DEATHS_OF_A_JOB = 3
"""A job that was in the engine at so many deaths, getting no further in between, is their cause
(docs/design/queue-topology.md#poison) ..."""
DEATHS_OF_A_SUSPECT = 2
"""... and after so many it runs alone, so that no other one is taken for it."""
RESTART_BACKOFF = 0.2

J = TypeVar("J", bound=EngineJob)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Parts(Generic[J]):
    """What jobs in an engine have to do with: made by the worker, whose id is `worker`."""

    engine: EngineClient
    consumer: JobConsumer[J]
    metrics: WorkerMetrics
    worker: str
    stall_seconds: float
    """After which an engine that says nothing though it has work is taken for hung."""


class EngineJobs(ABC, Generic[J]):
    """The handler of a worker's consumer. Use on the event loop only."""

    task: ClassVar[Task]

    def __init__(self, parts: Parts[J]) -> None:
        self._engine = parts.engine
        self._consumer = parts.consumer
        self._jobs = parts.consumer.jobs
        self._admission = parts.consumer.admission
        self._outbox = parts.consumer.outbox
        self._metrics = parts.metrics
        self._worker = parts.worker
        self._loaded: Ready | None = None
        self._up = False
        self._stall = StallWatch(parts.stall_seconds, self._owed, parts.engine.kill)
        self._deaths: deque[float] = deque()
        self._wear = Wear()
        self._renewing = False
        """It was ended here, to be started afresh: nobody is to blame."""
        self.load = EngineLoad()
        self.tokens = 0
        """Tokens the engine has generated, or embedded, since the start."""

    # What a kind of job is

    @property
    @abstractmethod
    def max_token_bytes(self) -> int:
        """UTF-8 length of the longest text that one token stands for."""

    @property
    @abstractmethod
    def prompt_bounds(self) -> PromptBounds:
        """What bounds the tokens of a prompt from above."""

    @abstractmethod
    def open(self, job: Job, delivery: Delivery) -> J:
        """A fresh attempt at a job."""

    @abstractmethod
    async def _prepare(self, running: J) -> None:
        """Set `running.request`.

        Raises:
            PromptRejected: the model can't take it.
        """

    @abstractmethod
    def _take(self, running: J, event: EngineEvent) -> None:
        """Tell the gateway what an event of a job that has not ended means; call `_finish` with its last one."""

    def _tell_start(self, running: J) -> None:
        """Tell the gateway more than that the job has a place, before anything else of it."""

    def _count_finished(self, running: J) -> None:
        """Count a job that has finished."""
        self._metrics.latency.observe(time.monotonic() - running.taken)

    # The engine's life

    async def start(self) -> Ready:
        """Start the engine.

        Raises:
            EngineStartFailed: it can't.
        """
        self._loaded = await self._engine.start()
        self._metrics.engine.engine_started()
        self._up = True
        self._wear.renewed()
        return self._loaded

    @property
    def _ready(self) -> Ready:
        """What the engine has loaded; jobs come only after that."""
        if self._loaded is None:
            raise RuntimeError("a job before the engine is ready")
        return self._loaded

    async def hear(self) -> None:
        """Apply every report; start the engine again when it dies, or hangs.

        Raises:
            EngineDied: it died too often.
        """
        watching = asyncio.create_task(self._stall.run())
        try:
            while not await self._hear_until_death():
                pass
        finally:
            watching.cancel()

    async def _hear_until_death(self) -> bool:
        """Whether it ended because it was stopped; else it has been started again."""
        try:
            async for report in self._engine.reports():
                self._stall.heard()
                self.apply(report)
        except EngineDied as error:
            self._up = False
            if self._renewing:
                await self._renew()
            else:
                _log.error("engine died", reason=str(error))
                self._mourn(str(error))
                await self._revive(str(error))
            return False
        return True

    async def _renew(self) -> None:
        self._renewing = False
        try:
            await self.start()
        except EngineStartFailed as error:
            await self._revive(str(error))
        else:
            self._go_on()

    def _owed(self) -> bool:
        """Whether the engine has something to report: every job that it was given, it answers."""
        return self._up and any(self._admission.has_place(running) for running in self._jobs if not running.ended)

    def _mourn(self, reason: str) -> None:
        """Give up what was there at every death without getting further in between; the rest will go on."""
        there = [running for running in self._jobs if not running.ended and self._admission.has_place(running)]
        for running in there:  # no longer: giving one up lets others in
            running.crashes = 1 if running.moved else running.crashes + 1
            running.moved = False
            if running.crashes >= DEATHS_OF_A_JOB:
                how = "alone but for jobs that had got further" if running.solo else "beside others"
                self._consumer.give_up(
                    running, f"{running.crashes} times in a row what ran it died with it, at last {how}: {reason}"
                )
            elif running.crashes >= DEATHS_OF_A_SUSPECT:
                running.solo = True
                self._admission.leave(running)
                self._admission.queue(running)

    async def _revive(self, reason: str) -> None:
        while True:
            now = time.monotonic()
            self._deaths.append(now)
            while now - self._deaths[0] > DEATHS_WITHIN:
                self._deaths.popleft()
            if len(self._deaths) > DEATHS_ALLOWED:
                raise EngineDied(
                    f"the engine died {len(self._deaths)} times within {DEATHS_WITHIN:.0f} s, at last: {reason}"
                )
            await asyncio.sleep(RESTART_BACKOFF * 2 ** (len(self._deaths) - 1))
            try:
                await self.start()
            except EngineStartFailed as error:
                _log.error("engine did not start again", reason=str(error))
                reason = str(error)
                continue
            self._go_on()
            return

    def _go_on(self) -> None:
        """Give a fresh engine what the last one had."""
        self._metrics.engine_restarts.inc()
        for running in self._jobs:
            if not running.ended and self._admission.has_place(running):
                self._submit(running)
        self.admit()

    # A job's way in

    async def begin(self, running: J) -> None:
        """Prepare a job and give it to the engine as soon as there is a place; a bad one fails here."""
        try:
            await self._prepare(running)
        except PromptRejected as error:
            self.fail(running, error.code, error.message, error.param)
            return
        if running.ended:  # cancelled or handed back meanwhile
            return
        self._admission.queue(running)
        self.admit()

    def admit(self) -> None:
        """Give waiting jobs the places that are free."""
        while (running := self._admission.admit()) is not None and running.request is not None:
            started = Started(
                j=running.job.id,
                a=running.attempt,
                w=self._worker,
                prompt_tokens=running.request.prompt_tokens,
                delivery_count=running.delivery.delivery_count,
            )
            self._admission.served(running, prompt=running.request.prompt_tokens)
            self._outbox.put(running.job.reply_to, started)
            self._tell_start(running)
            if running.finished:  # but for its terminal, an earlier attempt has done it all
                self._finish(running)
            else:
                self._submit(running)

    def _submit(self, running: J) -> None:
        if running.request is None:
            return
        try:
            self._engine.submit(running.rest(running.request))
        except EngineDied:
            running.log.debug("engine is being restarted, job waits for it")

    # Its way out

    def apply(self, report: StepReport) -> None:
        """Turn what a step produced into replies and ends."""
        for event in report.events:
            running = self._jobs.attempt(event.request)
            if running is None or running.ended:
                self._metrics.tokens_for_nobody.inc(event.tokens)
                continue
            first, running.moved, running.solo = not running.moved, True, False
            self._admission.served(running, output=event.tokens)
            self._take(running, event)
            if first:
                self.admit()
        for failed in report.failed:
            running = self._jobs.attempt(failed.request)
            if running is not None:
                self._fail_as_reported(running, failed)
            if failed.in_step:
                self._wear.fault()
        if self._wear.worn and not self._renewing:
            _log.warning("steps have failed again and again, the engine is started afresh")
            self._renewing = True
            self._engine.kill()
        self.load = report.load
        self._metrics.engine.load, self._metrics.engine.waiting = report.load, self._admission.waiting
        self._outbox.flush_due()

    def _finish(self, running: J) -> None:
        self._end(running, Finished(j=running.job.id, a=running.attempt, usage=running.usage))

    def fail(self, running: J, code: FailureCode, message: str, param: str | None = None) -> None:
        """End a job as failed; `message` is for the client."""
        self._engine.abort(running.attempt)
        terminal = Failed(
            j=running.job.id, a=running.attempt, code=code, message=message, param=param, usage=running.usage
        )
        self._end(running, terminal)

    def _fail_as_reported(self, running: J, failed: RequestFailed) -> None:
        running.log.error("request failed in the engine", reason=failed.message)
        self.fail(running, FailureCode.ENGINE_ERROR, "The engine failed on this request.")

    def cancel(self, running: J) -> None:
        """End a job because its gateway asked for it, or has gone."""
        self._engine.abort(running.attempt)
        self._end(running, Cancelled(j=running.job.id, a=running.attempt, usage=running.usage))

    def hand_back(self, running: J) -> None:
        """Let go of a job that somebody else answers: no terminal."""
        self._engine.abort(running.attempt)

    def _end(self, running: J, terminal: Terminal) -> None:
        if running.ended:
            return
        self._consumer.end(running, terminal)
        if isinstance(terminal, Finished):
            self._count_finished(running)
        else:
            self._metrics.finished("abort" if isinstance(terminal, Cancelled) else "error")
        self.admit()


MakeEngineJobs = Callable[[Parts[Any]], EngineJobs[Any]]
"""What a worker is given: the kind of jobs that it will run."""
