"""Runs the worker of one model of a proxy: consumes the model's job queues, forwards jobs, and sends heartbeats."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from proxy.catalogue import ModelSpec
from proxy.forwarded_attempt import ForwardedAttempt
from proxy.forwarder import Forwarder
from proxy.metrics import ProxyMetrics
from proxy.upstream import Upstream
from proxy.usage import BOUNDS
from router.bus import Bus
from router.consumer.job_consumer import JobConsumer
from router.consumer.token_rate import TokenRate
from router.messages import WorkerState, WorkerStatus

DEVICE = "upstream"
OVERFLOW_PRIORITY = -1
"""Consumer priority below the 0 of local workers: RabbitMQ delivers only jobs for which they have no capacity."""


class ProxyWorker:
    """Worker of one model on a started bus: forwards its jobs to upstreams and sends heartbeats."""

    def __init__(
        self,
        bus: Bus,
        model: str,
        spec: ModelSpec,
        upstreams: Mapping[str, Upstream],
        metrics: ProxyMetrics,
        *,
        worker: str,
        drain_grace: float,
        hand_over: asyncio.Event | None,
    ) -> None:
        self._worker = worker
        self._model = model
        self._spec = spec
        self._consumer: JobConsumer[ForwardedAttempt] = JobConsumer(
            bus,
            worker=worker,
            model=model,
            slots=spec.concurrency,
            drain_grace=drain_grace,
            priority=OVERFLOW_PRIORITY if spec.overflow else 0,
            status=self._heartbeat,
            hand_over=hand_over,
        )
        self._forwarder = Forwarder(model, spec, upstreams, self._consumer, metrics, worker=worker)
        self._started = time.time()
        self._rate = TokenRate()

    async def run(self, stop: asyncio.Event) -> None:
        """Consume the model's jobs and forward them to upstreams until `stop` is set or a drain requested, then drain.

        Raises:
            BrokerUnavailable: the broker can't be reached.
        """
        await self._consumer.open(self._forwarder)
        await self._consumer.serve(stop)

    def status(self) -> dict[str, Any]:
        """Return state, running and waiting jobs and tokens per second of this worker, as JSON values for `/status`."""
        admission = self._consumer.admission
        return {
            "state": str(self._consumer.state),
            "running": admission.admitted,
            "waiting": admission.waiting,
            "tokens_per_second": round(self._rate.per_second, 1),
        }

    def _heartbeat(self, state: WorkerState) -> WorkerStatus:
        return WorkerStatus(
            worker=self._worker,
            model=self._model,
            state=state,
            device=DEVICE,
            max_model_len=self._spec.max_model_len,
            max_num_seqs=self._spec.concurrency,
            running=self._consumer.admission.admitted,
            waiting=self._consumer.admission.waiting,
            kv_cache_usage=0.0,
            tokens_per_second=self._rate.update(self._forwarder.tokens),
            prompt_bounds=BOUNDS,
            task=self._spec.task,
            image_sizes=self._spec.image_sizes,
            continues=False,
            started=self._started,
            at=time.time(),
        )
