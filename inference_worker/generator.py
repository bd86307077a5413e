"""Runs jobs on the engine: prepared text in, deltas out, exactly one end for each.

Between the queue (`router/consumer/job_consumer.py`, whose handler it is) and the engine's process. Does not know
acknowledgements or usage records.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

import structlog

from inference_worker.engine_client import EngineClient
from inference_worker.engine_protocol import EngineLoad, Ready, StepReport, TokenEvent
from inference_worker.errors import EngineDied, EngineStartFailed
from inference_worker.metrics import WorkerMetrics
from inference_worker.running_jobs import RunningJob
from inference_worker.text.errors import PromptRejected
from inference_worker.text.output_text import Release
from inference_worker.text.processor import Limits, TextProcessor
from router.consumer.job_consumer import JobConsumer
from router.messages import Cancelled, Delta, Failed, FailureCode, Finished, Job, Started, Terminal
from router.transport.base import Delivery

DEATHS_ALLOWED = 3
DEATHS_WITHIN = 60.0
"""An engine that dies more than `DEATHS_ALLOWED` times in so many seconds is not started again."""
DEATHS_OF_A_JOB = 3
"""A job that was in the engine at so many deaths is taken for their cause (PROMISES 2.7)."""
RESTART_BACKOFF = 0.2

_log = structlog.get_logger(__name__)


class Generator:
    """The jobs of one worker in its engine. Use on the event loop only."""

    def __init__(
        self,
        engine: EngineClient,
        text: TextProcessor,
        consumer: JobConsumer[RunningJob],
        metrics: WorkerMetrics,
        *,
        worker: str,
    ) -> None:
        self._engine = engine
        self._text = text
        self._consumer = consumer
        self._jobs = consumer.jobs
        self._admission = consumer.admission
        self._outbox = consumer.outbox
        self._metrics = metrics
        self._worker = worker
        self._limits = Limits(1, 1)
        self._deaths: deque[float] = deque()
        self.load = EngineLoad()
        self.tokens = 0
        """Tokens the engine has generated since the start."""

    async def start(self) -> Ready:
        """Start the engine.

        Raises:
            EngineStartFailed: it can't.
        """
        ready = await self._engine.start()
        self._limits = Limits(ready.max_model_len, ready.vocab_size)
        return ready

    # A job's way in

    def open(self, job: Job, delivery: Delivery) -> RunningJob:
        """A fresh attempt at a job."""
        return RunningJob(job, delivery)

    async def begin(self, running: RunningJob) -> None:
        """Prepare a job and give it to the engine as soon as there is a place; a bad one fails here."""
        job = running.job
        try:
            request = await self._text.prepare(job, running.attempt, self._limits)
        except PromptRejected as error:
            self.fail(running, error.code, error.message, error.param)
            return
        if running.ended:  # cancelled or handed back meanwhile
            return
        running.outputs = [self._text.open(job, choice) for choice in range(job.n)]
        running.ids = [[] for _ in range(job.n)]
        running.request = request
        self._admission.queue(running)
        self.admit()

    def admit(self) -> None:
        """Give waiting jobs the places that are free."""
        while (running := self._admission.admit()) is not None and running.request is not None:
            started = Started(
                j=running.job.id,
                a=running.attempt,
                w=self._worker,
                prompt_tokens=len(running.request.prompt_ids),
                delivery_count=running.delivery.delivery_count,
            )
            self._outbox.put(running.job.reply_to, started)
            self._submit(running)

    def _submit(self, running: RunningJob) -> None:
        if running.request is None:
            return
        try:
            self._engine.submit(running.request)
        except EngineDied:
            running.log.debug("engine is being restarted, job waits for it")

    # Its way out

    def apply(self, report: StepReport) -> None:
        """Turn what a step produced into deltas and ends."""
        for event in report.events:
            running = self._jobs.attempt(event.request)
            if running is not None and not running.ended and event.choice < len(running.outputs):
                self._take(running, event)
        for failed in report.failed:
            running = self._jobs.attempt(failed.request)
            if running is not None:
                running.log.error("request failed in the engine", reason=failed.message)
                self.fail(running, FailureCode.ENGINE_ERROR, "The engine failed on this request.")
        self.load = report.load
        self._metrics.observe(report.load, self._admission.waiting)
        self._outbox.flush_due()

    def _take(self, running: RunningJob, event: TokenEvent) -> None:
        self._observe(running, event)
        self.tokens += len(event.token_ids)
        running.cached_tokens = max(running.cached_tokens, event.cached_tokens)
        release = running.outputs[event.choice].push(event)
        if release is None:
            return
        first = not running.ids[event.choice]
        running.accept(event.choice, release)
        self._outbox.put(running.job.reply_to, _delta(running, event.choice, release), urgent=first)
        if release.finish is not None:
            self._metrics.finished(release.finish)
            if event.finish_reason is None:  # a stop string: the engine does not know it
                self._engine.abort(running.attempt, event.choice)
        if running.finished:
            self._end(running, Finished(j=running.job.id, a=running.attempt, usage=running.usage))

    def _observe(self, running: RunningJob, event: TokenEvent) -> None:
        now = time.monotonic()
        if running.last_token is None:
            running.first_token = now
            self._metrics.time_to_first_token.observe(now - running.taken)
        elif running.job.n == 1 and event.token_ids:
            self._metrics.inter_token_latency.observe((now - running.last_token) / len(event.token_ids))
        running.last_token = now

    # Ends

    def fail(self, running: RunningJob, code: FailureCode, message: str, param: str | None = None) -> None:
        """End a job as failed; `message` is for the client."""
        self._engine.abort(running.attempt)
        terminal = Failed(
            j=running.job.id, a=running.attempt, code=code, message=message, param=param, usage=running.usage
        )
        self._end(running, terminal)

    def cancel(self, running: RunningJob) -> None:
        """End a job because its gateway asked for it, or has gone."""
        self._engine.abort(running.attempt)
        self._end(running, Cancelled(j=running.job.id, a=running.attempt, usage=running.usage))

    def hand_back(self, running: RunningJob) -> None:
        """Let go of a job that somebody else will answer: no terminal."""
        self._engine.abort(running.attempt)

    def _end(self, running: RunningJob, terminal: Terminal) -> None:
        if running.ended:
            return
        self._consumer.end(running, terminal)
        self._count_end(running, terminal)
        self.admit()

    def _count_end(self, running: RunningJob, terminal: Terminal) -> None:
        if not isinstance(terminal, Finished):
            self._metrics.finished("abort" if isinstance(terminal, Cancelled) else "error")
            return
        now = time.monotonic()
        self._metrics.latency.observe(now - running.taken)
        longest = max(map(len, running.ids))
        if running.first_token is not None and longest > 1:
            self._metrics.time_per_output_token.observe((now - running.first_token) / (longest - 1))

    # The engine's life

    async def hear(self) -> None:
        """Apply every report; start the engine again when it dies.

        Raises:
            EngineDied: it died too often; jobs that it had begun have failed.
        """
        while True:
            try:
                async for report in self._engine.reports():
                    self.apply(report)
                return
            except EngineDied as error:
                _log.error("engine died", reason=str(error))
                self._mourn()
                await self._revive(str(error))

    def _mourn(self) -> None:
        """Fail what the dead engine had begun; what it had not is submitted again later."""
        for running in self._jobs:
            if running.ended or not self._admission.has_place(running):
                continue
            running.engine_deaths += 1
            if running.started:
                self.fail(running, FailureCode.ENGINE_ERROR, "The engine stopped while it was answering.")
            elif running.engine_deaths >= DEATHS_OF_A_JOB:
                self.fail(running, FailureCode.FAILED_REPEATEDLY, "The engine stopped each time it began this request.")

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
            self._metrics.engine_restarts.inc()
            for running in self._jobs:
                if not running.ended and self._admission.has_place(running):
                    self._submit(running)
            return


def _delta(running: RunningJob, choice: int, release: Release) -> Delta:
    return Delta(
        j=running.job.id,
        a=running.attempt,
        c=choice,
        s=release.start,
        ids=release.ids,
        t=release.text,
        lp=release.logprobs,
        f=release.finish,
        stop=release.stopped_by,
    )
