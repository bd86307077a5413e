"""The worker: takes jobs of one model from the queue and sees each of them to its end.

The only file of the worker that sees the queue. In this order for every job, whatever happens: exactly one
terminal message to its gateway, its usage record confirmed by the broker, and only then the
acknowledgement (PROMISES 2.3). Running it is `generator.py`'s business; money and HTTP are nobody's here.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import structlog

from inference_worker.admission import Admission, capacity
from inference_worker.engine_client import EngineClient
from inference_worker.engine_protocol import Ready
from inference_worker.errors import EngineDied
from inference_worker.generator import Generator
from inference_worker.metrics import WorkerMetrics, kv_usage
from inference_worker.running_jobs import RecentJobs, RunningJob, RunningJobs
from inference_worker.settings import WorkerSettings
from inference_worker.text.processor import TextProcessor
from inference_worker.windows import Outbox
from router import control_plane
from router.bus import Bus, Envelope, Feed, Inbound
from router.errors import BrokerUnavailable, PublishError
from router.messages import (
    Cancel,
    Control,
    FailureCode,
    Job,
    Outcome,
    ServiceClass,
    UsageRecord,
    WorkerState,
    WorkerStatus,
)

HEARTBEAT = 1.0
"""Seconds between two heartbeats; running jobs are checked against their deadlines as often."""
SETTLE_BACKOFF = (0.2, 5.0)
"""Seconds between two tries to publish a usage record: first and at most."""

SETTLE_PATIENCE = 5.0
"""Seconds that the last usage records may take when leaving; what is not confirmed then is answered again elsewhere."""

_log = structlog.get_logger(__name__)


class Worker:
    """One model's worker on a started bus."""

    def __init__(
        self,
        bus: Bus,
        engine: EngineClient,
        text: TextProcessor,
        settings: WorkerSettings,
        metrics: WorkerMetrics,
        *,
        model: str,
        hand_off: asyncio.Event | None = None,
    ) -> None:
        """`model` is the served name; `hand_off`, once set, ends a drain at once."""
        self._bus = bus
        self._settings = settings
        self._model = model
        self._text = text
        self._engine = engine
        self._jobs = RunningJobs()
        self._cancelled = RecentJobs()
        self._done = RecentJobs()
        self._admission = Admission(capacity(settings.max_num_seqs))
        self._outbox = Outbox(bus, settings.id, self._lost_gateway)
        self._generator = Generator(
            engine,
            text,
            jobs=self._jobs,
            admission=self._admission,
            outbox=self._outbox,
            metrics=metrics,
            worker=settings.id,
            on_end=self._settle_later,
        )
        self._state = WorkerState.READY
        self._stop = asyncio.Event()
        self._idle = asyncio.Event()
        self._hand_off = hand_off or asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._inbounds: list[Inbound[Job]] = []
        self._gave_up: EngineDied | None = None
        self._ready: Ready | None = None
        self._started = time.time()
        self._rate = 0.0
        self._counted = (time.monotonic(), 0)

    async def run(self, stop: asyncio.Event) -> None:
        """Start the engine, serve until `stop` is set or a drain is asked for, then drain.

        Raises:
            EngineStartFailed: the engine can't start.
            EngineDied: it died too often; jobs not begun went back to the queue.
            BrokerUnavailable: no queue to take jobs from.
        """
        self._ready = await self._generator.start()
        try:
            await self._serve(stop)
        finally:
            await self._engine.stop()
        if self._gave_up is not None:
            raise self._gave_up

    def status(self) -> dict[str, Any]:
        """What it is doing, for the operator."""
        load = self._generator.load
        return {
            "model": self._model,
            "device": self._settings.device,
            "state": "starting" if self._ready is None else str(self._state),
            "running": load.running,
            "waiting": load.waiting + self._admission.waiting,
            "kv_cache_usage": round(kv_usage(load), 4),
            "tokens_per_second": round(self._rate, 1),
        }

    async def _serve(self, stop: asyncio.Event) -> None:
        await self._bus.declare_model(self._model)
        self._bus.on_lost_gateway(self._lost_gateway)
        targets = [control_plane.worker(self._settings.id), control_plane.model(self._model), control_plane.ALL]
        controls = await self._bus.controls(targets)
        prefetch = capacity(self._settings.max_num_seqs)
        self._inbounds = [await self._bus.jobs(self._model, each, prefetch=prefetch) for each in ServiceClass]
        _log.info("worker is ready", worker=self._settings.id, model=self._model)
        async with asyncio.TaskGroup() as group:
            loops = [
                *(group.create_task(self._take_all(inbound)) for inbound in self._inbounds),
                group.create_task(self._obey(controls)),
                group.create_task(self._hear_engine()),
                group.create_task(self._beat()),
            ]
            await self._wait_for(stop, self._stop)
            await self._drain()
            for loop in loops:
                loop.cancel()
        await controls.close()
        for task in self._tasks:
            task.cancel()

    # Taking jobs

    async def _take_all(self, inbound: Inbound[Job]) -> None:
        async for envelope in inbound:
            self._take(envelope)

    def _take(self, envelope: Envelope[Job]) -> None:
        job, delivery = envelope.message, envelope.delivery
        if self._state is WorkerState.DRAINING:
            delivery.reject(requeue=True)
            return
        if job.id in self._done:
            delivery.ack()
            return
        current = self._jobs.job(job.id)
        if current is not None:
            self._adopt(current, envelope)
            return
        running = RunningJob(job, delivery)
        self._jobs.add(running)
        self._idle.clear()
        if job.id in self._cancelled:
            self._generator.cancel(running)
        elif not self._expired(running):
            self._spawn(self._generator.begin(running), running)

    def _adopt(self, current: RunningJob, envelope: Envelope[Job]) -> None:
        """A job that we have already: take over its new delivery if ours was lost with a connection."""
        if current.delivery.lost:
            current.delivery = envelope.delivery
            current.log.info("job re-adopted after a reconnect")
        else:
            envelope.delivery.ack()
            current.log.warning("duplicate of a running job dropped")

    def _expired(self, running: RunningJob) -> bool:
        if time.time() < running.job.deadline:
            return False
        self._generator.fail(running, FailureCode.DEADLINE_EXCEEDED, "The request's deadline has passed.")
        return True

    # Ending them

    def _settle_later(self, running: RunningJob, outcome: Outcome, code: FailureCode | None) -> None:
        record = UsageRecord(
            job=running.job.id,
            attempt=running.attempt,
            tenant=running.job.tenant,
            model=self._model,
            worker=self._settings.id,
            outcome=outcome,
            usage=running.usage,
            at=time.time(),
            digest=running.digest,
            error=code,
        )
        running.log.info("job ended", outcome=str(outcome), error=code and str(code))
        self._spawn(self._settle(running, record))

    async def _settle(self, running: RunningJob, record: UsageRecord) -> None:
        delay, longest = SETTLE_BACKOFF
        while True:
            try:
                await self._bus.publish_usage(record)
                break
            except PublishError as error:
                running.log.warning("usage record not confirmed, trying again", reason=str(error))
                await asyncio.sleep(delay * random.uniform(0.5, 1))  # noqa: S311 - jitter, no secret
                delay = min(2 * delay, longest)
        if running.delivery.lost:
            self._done.add(running.job.id)
        running.delivery.ack()
        self._forget(running)

    def _forget(self, running: RunningJob) -> None:
        self._jobs.remove(running)
        if not len(self._jobs):
            self._idle.set()

    def _lost_gateway(self, gateway: str) -> None:
        lost = [running for running in self._jobs.of_gateway(gateway) if not running.ended]
        if lost:
            _log.warning("gateway has gone, its jobs are cancelled", gateway=gateway, jobs=len(lost))
        for running in lost:
            self._generator.cancel(running)
        self._outbox.forget(gateway)

    # Control, heartbeat, engine

    async def _obey(self, controls: Feed[Control]) -> None:
        async for control in controls:
            if isinstance(control, Cancel):
                self._cancelled.add(control.job)
                running = self._jobs.job(control.job)
                if running is not None:
                    self._generator.cancel(running)
            else:
                self._stop.set()

    async def _beat(self) -> None:
        while True:
            self._send_status()
            for running in self._jobs:
                if not running.ended:
                    self._expired(running)
            await asyncio.sleep(HEARTBEAT)

    def _send_status(self) -> None:
        if self._ready is None:
            return
        self._measure_rate()
        load = self._generator.load
        status = WorkerStatus(
            worker=self._settings.id,
            model=self._model,
            state=self._state,
            device=self._ready.device,
            max_model_len=self._ready.max_model_len,
            max_num_seqs=self._ready.max_num_seqs,
            running=load.running,
            waiting=load.waiting + self._admission.waiting,
            kv_cache_usage=kv_usage(load),
            tokens_per_second=self._rate,
            max_token_bytes=self._text.tokenizer.max_token_bytes,
            started=self._started,
            at=time.time(),
        )
        with suppress(BrokerUnavailable):
            self._bus.send_status(status)

    def _measure_rate(self) -> None:
        now, tokens = time.monotonic(), self._generator.tokens
        since, before = self._counted
        if now - since >= HEARTBEAT / 2:
            self._rate = (tokens - before) / (now - since)
            self._counted = now, tokens

    async def _hear_engine(self) -> None:
        try:
            await self._generator.hear()
        except EngineDied as error:
            self._gave_up = error
            self._stop.set()
            self._hand_off.set()

    # Leaving

    async def _drain(self) -> None:
        """No new jobs; those not begun go back to the queue; the rest get `drain_grace` seconds (PROMISES F2)."""
        self._state = WorkerState.DRAINING
        self._send_status()
        _log.info("worker is draining", worker=self._settings.id, running=len(self._jobs))
        for inbound in self._inbounds:
            await inbound.cancel()
        for running in self._jobs:
            if not self._admission.has_place(running):
                self._hand_back(running)
        if len(self._jobs):
            await self._wait_for(self._idle, self._hand_off, at_most=self._settings.drain_grace)
        for running in self._jobs:
            self._hand_back(running)
        self._outbox.flush()
        if len(self._jobs):  # ended, but not settled yet
            await self._wait_for(self._idle, at_most=SETTLE_PATIENCE)

    def _hand_back(self, running: RunningJob) -> None:
        if running.ended:  # its usage record is on its way
            return
        self._generator.hand_back(running)
        running.delivery.reject(requeue=True)
        running.log.info("job handed back to the queue")
        self._forget(running)

    # Tasks

    def _spawn(self, work: Coroutine[Any, Any, None], running: RunningJob | None = None) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if task.cancelled() or (error := task.exception()) is None:
                return
            _log.error("a job's task failed", exc_info=error)
            if running is not None:
                self._generator.fail(running, FailureCode.ENGINE_ERROR, "The worker failed on this request.")

        task.add_done_callback(done)

    async def _wait_for(self, *events: asyncio.Event, at_most: float | None = None) -> None:
        """Return when one of `events` is set, or after `at_most` seconds."""
        waits = [asyncio.create_task(event.wait()) for event in events]
        await asyncio.wait(waits, timeout=at_most, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
