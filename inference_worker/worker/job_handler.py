"""Base class of a worker's job handlers: submits jobs to the engine, ends them, and restarts a crashed engine.

`EngineJobHandler` is the handler of a `JobConsumer`, which acknowledges jobs and publishes usage records. Subclasses
build engine requests and turn engine events into replies: `generation_handler.py`, `input_handler.py`,
`images/handler.py`.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import structlog

from inference_worker.engine_protocol import EngineEvent, EngineLoad, EngineRequest, Ready, RequestFailed, StepReport
from inference_worker.errors import EngineDied, EngineStartFailed, ImageReaderFailed, PromptRejected
from inference_worker.worker.engine_attempt import EngineAttempt
from inference_worker.worker.engine_client import EngineClient
from inference_worker.worker.engine_watchdog import EngineWatchdog
from inference_worker.worker.metrics import WorkerMetrics
from inference_worker.worker.restart_policy import RestartPolicy
from router.consumer.job_consumer import JobConsumer
from router.messages import Cancelled, Failed, FailureCode, Finished, Job, PromptBounds, Started, Task, Terminal
from router.timings import DEFAULT_TIMINGS, Timings
from router.transport.base import Delivery
from runtime.retry import delay_after, exponential_backoff

MAX_CRASHES = 3
CRASH_WINDOW = 60.0
"""Seconds. An engine that crashes more than `MAX_CRASHES` times within them is not restarted."""
RESTART_WAIT = exponential_backoff(first=0.2, longest=5.0)
"""Delays before a restart, by the number of crashes within `CRASH_WINDOW`."""

J = TypeVar("J", bound=EngineAttempt)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class HandlerContext(Generic[J]):
    """What a worker passes to its `EngineJobHandler`; `worker` is the worker's id."""

    engine: EngineClient
    consumer: JobConsumer[J]
    metrics: WorkerMetrics
    worker: str
    stall_seconds: float
    """Seconds without a report after which an engine that has work counts as hung."""
    timings: Timings = DEFAULT_TIMINGS


class EngineJobHandler(ABC, Generic[J]):
    """Base class of a worker's job handlers: runs the consumer's jobs in an engine. Use on the event loop only."""

    task: ClassVar[Task]
    attempt_type: type[J]
    """Class of the attempts that `open` creates."""
    max_token_bytes: int
    """UTF-8 bytes of the vocabulary's longest token, for the heartbeat."""
    prompt_bounds: PromptBounds
    """Coefficients of an upper bound on a prompt's tokens."""
    reads_images = False
    """Whether prompts can have images."""
    searches = False
    """Whether it runs jobs with a `Search`."""
    tokenises = False
    """Whether it runs jobs with a `TokenisationPrompt`."""
    scores_pairs = False
    """Whether it scores pairs of texts alone, not answers to conversations."""
    labels: Sequence[str] = ()
    """Labels that it scores, if it is a classifier."""

    def __init__(self, context: HandlerContext[J]) -> None:
        self._engine = context.engine
        self._consumer = context.consumer
        self._attempts = context.consumer.attempts
        self._admission = context.consumer.admission
        self._outbox = context.consumer.outbox
        self._metrics = context.metrics
        self._worker = context.worker
        self._loaded: Ready | None = None
        self._up = False
        self._timings = context.timings
        self._watchdog = EngineWatchdog(
            context.stall_seconds,
            self._report_due,
            context.engine.kill,
            interval=context.timings.engine_check_interval,
        )
        self._crashes: deque[float] = deque()
        self._restart_policy = RestartPolicy()
        self._replacing = False
        """Whether the worker killed the engine on purpose, to replace it; no job is suspected then."""
        self.load = EngineLoad()
        self.tokens = 0
        """Tokens generated, embedded or scored since the worker started."""

    # Interface of subclasses

    @abstractmethod
    async def _prepare(self, attempt: J) -> None:
        """Set `attempt.request` to the engine request of its job, or end a job that needs no engine.

        Raises:
            PromptRejected: the model can't process the job's prompt or options.
            ImageReaderFailed: the worker could not read the prompt's images.
        """

    @abstractmethod
    def _handle_event(self, attempt: J, event: EngineEvent) -> None:
        """Publish the replies that an engine event of an unfinished job leads to; call `_finish` after the last one."""

    def _on_started(self, attempt: J) -> None:
        """Publish further replies right after `Started`; the default publishes none."""

    def _count_finished(self, attempt: J) -> None:
        """Record the metrics of a finished job."""
        self._metrics.latency.observe(time.monotonic() - attempt.received_at)

    # Engine lifecycle

    async def start(self) -> Ready:
        """Start the engine, wait until its model is loaded, and return the engine's report of the model and its limits.

        Raises:
            EngineStartFailed: the model could not be loaded.
        """
        self._loaded = await self._engine.start()
        self._metrics.engine.engine_started(self._loaded.kv_block_bytes)
        self._up = True
        self._restart_policy.reset()
        return self._loaded

    @property
    def _ready(self) -> Ready:
        """The engine's limits, as reported when its model was loaded."""
        if self._loaded is None:
            raise RuntimeError("a job before the engine is ready")
        return self._loaded

    async def supervise(self) -> None:
        """Apply the engine's step reports to jobs until the engine is stopped; restart it when it crashes or hangs.

        Jobs that were in a crashed engine are submitted again. Runs as long as the worker.

        Raises:
            EngineDied: the engine crashed too often.
        """
        watching = asyncio.create_task(self._watchdog.run())
        try:
            while not await self._apply_reports():
                pass
        finally:
            watching.cancel()

    async def _apply_reports(self) -> bool:
        """Apply reports until the engine exits. Return whether it was stopped; after a crash it has been restarted."""
        try:
            async for report in self._engine.reports():
                self._watchdog.report_received()
                self.apply(report)
        except EngineDied as error:
            self._up = False
            if self._replacing:
                await self._replace()
            elif error.elsewhere:
                _log.error("engine crashed in a step of another model", reason=str(error))
                await self._restart(str(error))
            else:
                _log.error("engine crashed", reason=str(error))
                self._handle_engine_exit(str(error))
                await self._restart(str(error))
            return False
        return True

    async def _replace(self) -> None:
        self._replacing = False
        try:
            await self.start()
        except EngineStartFailed as error:
            await self._restart(str(error))
        else:
            self._resubmit()

    def _report_due(self) -> bool:
        """Whether the engine has unfinished jobs, so that a report of it is due."""
        return self._up and bool(self._in_engine())

    def _in_engine(self) -> list[J]:
        """Return the attempts that are in the engine, or were when it crashed."""
        has_slot = self._admission.has_slot
        admitted = (each for each in self._attempts if has_slot(each) and not (each.ended or each.awaits_permission))
        return [each for each in admitted if each.in_engine]

    def _handle_engine_exit(self, reason: str) -> None:
        """Count an engine crash against the jobs that were running; give up those that crashed it repeatedly.

        The others run again one by one, each when its gateway permits it (docs/design/queue-topology.md#poison).
        """
        for attempt in self._in_engine():
            attempt.crashes = 1 if attempt.progressed else attempt.crashes + 1
            attempt.progressed = False
            if attempt.crashes >= self._timings.poison_after_crashes:
                how = "isolated" if attempt.solo else "beside other jobs"
                times = f"the engine crashed {attempt.crashes} times in a row while it ran this job"
                self._consumer.fail_permanently(attempt, f"{times}, the last time {how}: {reason}")
            else:
                attempt.solo = attempt.awaits_permission = True
                self._admission.release(attempt)
                self._admission.enqueue(attempt)

    async def _start_if_permitted(self, attempt: J) -> None:
        """Start a suspected job that has a slot, once its gateway permits it."""
        if await self._consumer.permission_to_run(attempt) is not None:
            attempt.awaits_permission = False
            self._start(attempt)

    async def _restart(self, reason: str) -> None:
        while True:
            now = time.monotonic()
            self._crashes.append(now)
            while now - self._crashes[0] > CRASH_WINDOW:
                self._crashes.popleft()
            if len(self._crashes) > MAX_CRASHES:
                raise EngineDied(
                    f"the engine crashed {len(self._crashes)} times within {CRASH_WINDOW:.0f} s, lastly: {reason}"
                )
            await asyncio.sleep(delay_after(len(self._crashes), RESTART_WAIT))
            try:
                await self.start()
            except EngineStartFailed as error:
                _log.error("engine restart failed", reason=str(error))
                reason = str(error)
                continue
            self._resubmit()
            return

    def _resubmit(self) -> None:
        """Submit the unfinished jobs to the new engine."""
        self._metrics.engine_restarts.inc()
        for attempt in self._in_engine():
            self._submit(attempt)
        self.admit()

    # Start of a job

    def open(self, job: Job, delivery: Delivery) -> J:
        """Create this worker's attempt at `job`, which the queue message `delivery` brought; `begin` starts it."""
        return self.attempt_type(job, delivery)

    async def begin(self, attempt: J) -> None:
        """Prepare an attempt's engine request (tokenise, validate) and queue the attempt for a slot.

        A job whose prompt is rejected, or whose images can't be read, is failed.
        """
        try:
            await self._prepare(attempt)
        except PromptRejected as error:
            self.fail(attempt, error.code, error.message, error.param)
            return
        except ImageReaderFailed as error:
            attempt.log.error("images were not read", reason=str(error))
            self.fail(attempt, FailureCode.ENGINE_ERROR, "The worker failed to read the images. Please try again.")
            return
        if attempt.ended:  # cancelled or handed back while it was prepared
            return
        attempt.awaits_permission = attempt.crashes > 0
        self._admission.enqueue(attempt)
        self.admit()

    def admit(self) -> None:
        """Start waiting attempts while slots are free: report `Started` to the gateway and submit to the engine.

        A job that was in a crashed engine is submitted once its gateway permits it.
        """
        while (attempt := self._admission.admit()) is not None and attempt.request is not None:
            if attempt.awaits_permission:
                self._consumer.spawn(self._start_if_permitted(attempt), attempt)
            else:
                self._start(attempt)

    def _start(self, attempt: J) -> None:
        """Report the start of a job that has a slot, and submit it to the engine."""
        if attempt.request is None:
            return
        started = Started(
            job_id=attempt.job.id,
            attempt_id=attempt.attempt_id,
            worker_id=self._worker,
            prompt_tokens=attempt.request.prompt_tokens,
            delivery_count=attempt.delivery.delivery_count,
        )
        self._admission.charge(attempt, prompt=attempt.request.prompt_tokens)
        self._outbox.put(attempt.job.reply_to, started)
        self._on_started(attempt)
        if attempt.finished:  # an earlier attempt delivered everything but the terminal message
            self._finish(attempt)
        else:
            self._submit(attempt)

    def _submit(self, attempt: J) -> None:
        self._send(attempt, attempt.outstanding())

    def _send(self, attempt: J, requests: Iterable[EngineRequest]) -> None:
        """Send engine requests of a job to the engine; after a crash `_resubmit` does."""
        try:
            for request in requests:
                self._engine.submit(request)
        except EngineDied:
            attempt.log.debug("engine is restarting, the job is submitted afterwards")

    # Progress and end of a job

    def apply(self, report: StepReport) -> None:
        """Publish the replies of one engine step to the gateways, and end the jobs that the report finishes or fails.

        Kills an engine whose steps fail repeatedly, so that it is replaced.
        """
        for event in report.events:
            attempt = self._attempts.by_id(event.request) or self._numbered(event.request)
            if attempt is None or attempt.ended:
                self._metrics.discarded_tokens.inc(event.tokens)
                continue
            first, attempt.progressed, attempt.solo = not attempt.progressed, True, False
            self._admission.charge(attempt, output=event.tokens)
            self._handle_event(attempt, event)
            if first:
                self.admit()
        for failed in report.failed:
            attempt = self._attempts.by_id(failed.request) or self._numbered(failed.request)
            if attempt is not None:
                self._fail_as_reported(attempt, failed)
            if failed.in_step:
                self._restart_policy.record_fault()
        if self._restart_policy.restart_due and not self._replacing:
            _log.warning("engine steps failed repeatedly, restarting the engine")
            self._replacing = True
            self._engine.kill(planned=True)
        self.load = report.load
        self._metrics.engine.load, self._metrics.engine.waiting = report.load, self._admission.waiting
        self._outbox.flush_due()

    def _numbered(self, request: str) -> J | None:
        """Return the attempt of an engine request `ATTEMPT_ID/NUMBER`, or `None`."""
        return self._attempts.by_id(request.partition("/")[0])

    def _finish(self, attempt: J) -> None:
        self._end(attempt, Finished(job_id=attempt.job.id, attempt_id=attempt.attempt_id, usage=attempt.usage))

    def fail(self, attempt: J, code: FailureCode, message: str, param: str | None = None) -> None:
        """End a job as failed: stop it in the engine, and send the terminal reply.

        The client gets `message`, and `param`, the request's field at fault.
        """
        self._abort(attempt)
        terminal = Failed(
            job_id=attempt.job.id,
            attempt_id=attempt.attempt_id,
            code=code,
            message=message,
            param=param,
            usage=attempt.usage,
        )
        self._end(attempt, terminal)

    def _fail_as_reported(self, attempt: J, failed: RequestFailed) -> None:
        attempt.log.error("request failed in the engine", reason=failed.message)
        self.fail(attempt, FailureCode.ENGINE_ERROR, "The engine failed on this request.")

    def cancel(self, attempt: J) -> None:
        """End a job as cancelled, on its gateway's request or death: stop it in the engine, send the terminal reply."""
        self._abort(attempt)
        self._end(attempt, Cancelled(job_id=attempt.job.id, attempt_id=attempt.attempt_id, usage=attempt.usage))

    def abandon(self, attempt: J) -> None:
        """Stop a job in the engine without a terminal reply, because another worker will answer the job."""
        self._abort(attempt)

    def _abort(self, attempt: J) -> None:
        """Stop all work for a job."""
        self._engine.abort(attempt.attempt_id)

    def _end(self, attempt: J, terminal: Terminal) -> None:
        if attempt.ended:
            return
        self._consumer.end(attempt, terminal)
        if isinstance(terminal, Finished):
            self._count_finished(attempt)
        else:
            self._metrics.finished("abort" if isinstance(terminal, Cancelled) else "error")
        self.admit()


HandlerFactory = Callable[[HandlerContext[Any]], EngineJobHandler[Any]]
"""Creates the `EngineJobHandler` of a worker: a `GenerationHandler`, `InputHandler` or `ImageHandler`."""
