"""Runs a worker of one model: consumes the model's job queues, supervises its engine, and sends heartbeats.

`router/consumer/` has what all consumers of jobs share; `job_handler.py` runs the jobs in the engine.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

from inference_worker.engine_protocol import Ready
from inference_worker.errors import EngineDied
from inference_worker.settings import WorkerSettings
from inference_worker.worker.engine_client import EngineClient
from inference_worker.worker.job_handler import HandlerContext, HandlerFactory
from inference_worker.worker.load_metrics import kv_usage
from inference_worker.worker.metrics import WorkerMetrics
from router.bus import Bus
from router.consumer.job_consumer import JobConsumer
from router.consumer.token_rate import TokenRate
from router.messages import WorkerState, WorkerStatus
from router.timings import DEFAULT_TIMINGS, Timings

ADMISSION_HEADROOM = 0.05
"""Jobs admitted beyond the engine's slots, as a share of these, so that a freed slot is filled at the next step."""


def capacity(max_num_seqs: int) -> int:
    """Return how many jobs a worker holds at a time for an engine of `max_num_seqs` sequences.

    It is also the prefetch of each consumer.
    """
    return max_num_seqs + max(1, math.ceil(max_num_seqs * ADMISSION_HEADROOM))


class Worker:
    """Worker of one model on a started bus: consumes its jobs, supervises its engine and sends heartbeats."""

    def __init__(
        self,
        bus: Bus,
        engine: EngineClient,
        make_handler: HandlerFactory,
        settings: WorkerSettings,
        metrics: WorkerMetrics,
        *,
        model: str,
        hand_over: asyncio.Event | None = None,
        timings: Timings = DEFAULT_TIMINGS,
    ) -> None:
        """`make_handler` depends on the model's task, `model` is its served name, setting `hand_over` ends a drain."""
        self._settings = settings
        self._model = model
        self._engine = engine
        self._consumer: JobConsumer[Any] = JobConsumer(
            bus,
            worker=settings.id,
            model=model,
            slots=capacity(settings.max_num_seqs),
            drain_grace=settings.drain_grace,
            status=self._heartbeat,
            hand_over=hand_over,
            timings=timings,
        )
        self._handler = make_handler(
            HandlerContext(engine, self._consumer, metrics, settings.id, settings.stall_seconds, timings)
        )
        self._engine_failure: EngineDied | None = None
        self._ready: Ready | None = None
        self._started = time.time()
        self._rate = TokenRate()

    async def run(self, stop: asyncio.Event) -> None:
        """Start the engine and answer the bus's jobs until `stop` is set or a drain is requested, then drain.

        Raises:
            EngineStartFailed: the engine can't start.
            EngineDied: the engine crashed too often; jobs not begun went back to the queue.
            BrokerUnavailable: the broker can't be reached.
        """
        loading = asyncio.create_task(self._consumer.send_heartbeats())
        try:
            self._ready = await self._handler.start()
            self._consumer.admission.preempts_flex = self._ready.preempts_flex
        finally:
            loading.cancel()
        try:
            await self._consumer.open(self._handler)
            async with asyncio.TaskGroup() as group:
                supervision = group.create_task(self._supervise_engine())
                await self._consumer.serve(stop)
                supervision.cancel()
        finally:
            await self._engine.stop()
        if self._engine_failure is not None:
            raise self._engine_failure

    def status(self) -> dict[str, Any]:
        """Return the worker's state and load as the JSON object of its `/status` endpoint."""
        load = self._handler.load
        return {
            "model": self._model,
            "device": self._settings.device,
            "state": str(self._consumer.state),
            "running": load.running,
            "waiting": load.waiting + self._consumer.admission.waiting,
            "kv_cache_usage": round(kv_usage(load), 4),
            "tokens_per_second": round(self._rate.per_second, 1),
        }

    def _heartbeat(self, state: WorkerState) -> WorkerStatus:
        load, ready = self._handler.load, self._ready
        return WorkerStatus(
            worker=self._settings.id,
            model=self._model,
            state=state,
            device=ready.device if ready else self._settings.device,
            max_model_len=ready.max_model_len if ready else 0,
            max_num_seqs=ready.max_num_seqs if ready else 0,
            running=load.running,
            waiting=load.waiting + self._consumer.admission.waiting,
            kv_cache_usage=kv_usage(load),
            tokens_per_second=self._rate.update(self._handler.tokens),
            max_token_bytes=self._handler.max_token_bytes,
            prompt_bounds=self._handler.prompt_bounds,
            task=self._handler.task,
            dimensions=ready.dimensions if ready else 0,
            image_sizes=ready.image_sizes if ready else [],
            reads_images=self._handler.reads_images,
            searches=self._handler.searches,
            tokenises=self._handler.tokenises,
            scores_pairs=self._handler.scores_pairs,
            labels=list(self._handler.labels),
            started=self._started,
            at=time.time(),
        )

    async def _supervise_engine(self) -> None:
        try:
            await self._handler.supervise()
        except EngineDied as error:
            self._engine_failure = error
            self._consumer.hand_over_all()
