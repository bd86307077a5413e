"""Runs the consumer of one assistant's jobs: takes jobs from the assistant's queues, and sends heartbeats."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from assistant.abilities import Abilities
from assistant.attempt import AssistantAttempt
from assistant.job_handler import AssistantJobHandler
from assistant.metrics import AssistantMetrics
from router.bus import Bus
from router.consumer.job_consumer import JobConsumer
from router.consumer.token_rate import TokenRate
from router.messages import WorkerState, WorkerStatus
from router.timings import DEFAULT_TIMINGS, Timings

DEVICE = "assistant"


class AssistantWorker:
    """Consumer of one assistant's jobs on a started bus.

    While no worker serves the model that writes the answers, its heartbeats say that it is starting: gateways then
    treat its jobs as those of a model that is being loaded.
    """

    def __init__(
        self,
        bus: Bus,
        model: str,
        abilities: Abilities,
        metrics: AssistantMetrics,
        *,
        drain_grace: float,
        hand_over: asyncio.Event | None,
        timings: Timings = DEFAULT_TIMINGS,
    ) -> None:
        self._model = model
        self._abilities = abilities
        self._consumer: JobConsumer[AssistantAttempt] = JobConsumer(
            bus,
            worker=abilities.worker,
            model=model,
            slots=abilities.spec.concurrency,
            drain_grace=drain_grace,
            status=self._heartbeat,
            hand_over=hand_over,
            timings=timings,
        )
        self._handler = AssistantJobHandler(abilities, self._consumer, metrics, model=model)
        self._started = time.time()
        self._rate = TokenRate()

    async def run(self, stop: asyncio.Event) -> None:
        """Answer jobs from this assistant's queues until `stop` is set or a drain is requested, then drain.

        Raises:
            BrokerUnavailable: the broker can't be reached.
        """
        await self._consumer.open(self._handler)
        await self._consumer.serve(stop)

    def status(self) -> dict[str, Any]:
        """Return this assistant's state and load for the `/status` endpoint, with the tools that are off and why."""
        admission = self._consumer.admission
        return {
            "state": str(self._consumer.state),
            "running": admission.admitted,
            "waiting": admission.waiting,
            "tokens_per_second": round(self._rate.per_second, 1),
            "answers_with": None if (model := self._abilities.answers_with) is None else model.name,
            "tools_off": self._abilities.toolbox.reasons("en"),
        }

    def _heartbeat(self, state: WorkerState) -> WorkerStatus:
        spec = self._abilities.spec
        model, sees = self._abilities.answers_with, self._abilities.sees_with
        serves = model is not None and model.alive
        return WorkerStatus(
            worker=self._abilities.worker,
            model=self._model,
            state=state if serves or state is not WorkerState.READY else WorkerState.STARTING,
            device=DEVICE,
            max_model_len=max((each.longest_model_len for each in (model, sees) if each is not None), default=0),
            max_num_seqs=spec.concurrency,
            running=self._consumer.admission.admitted,
            waiting=self._consumer.admission.waiting,
            kv_cache_usage=0.0,
            tokens_per_second=self._rate.update(self._handler.tokens),
            parts=self._abilities.most_parts(),
            tools=self._abilities.callable_tools(),
            reads_images=sees is not None,
            unnamed_models=self._abilities.unnamed_models(),
            answers_with="" if model is None else model.name,
            sees_with="" if sees is None else sees.name,
            started=self._started,
            at=time.time(),
        )
