"""An assistant that answers a job by one child job, whose output it passes on: it can be killed and continued."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from router.bus import Bus
from router.consumer.attempts import Attempt
from router.consumer.job_consumer import JobConsumer
from router.messages import (
    Cancelled,
    Delta,
    Failed,
    FailureCode,
    Finished,
    Job,
    Started,
    Task,
    Usage,
    WorkerState,
    WorkerStatus,
)
from router.producer.child_jobs import ChildJobs, ChildRequest
from router.producer.errors import GenerationError
from router.producer.job_output import ResumePoint
from router.producer.metrics import ProducerMetrics
from router.timings import Timings
from router.transport.base import Delivery, Transport

ASSISTANT = "relay"


@dataclass(eq=False)
class RelayedAttempt(Attempt):
    """An attempt whose task passes on the replies of a child job."""

    task: asyncio.Task[None] | None = None
    used: Usage = field(default_factory=lambda: Usage(prompt_tokens=0))
    digest = ""

    @property
    def usage(self) -> Usage:
        return self.used


class RelayingAssistant:
    """A `JobHandler` for the model `relay`, with child jobs at `model`."""

    def __init__(self, transport: Transport, name: str, model: str, timings: Timings) -> None:
        self.transport, self.name, self.model = transport, name, model
        bus = Bus(transport)
        metrics = ProducerMetrics(CollectorRegistry())
        self.children = ChildJobs(bus, name, metrics, no_worker_timeout=20, max_unread_bytes=2**20, timings=timings)
        self.consumer: JobConsumer[RelayedAttempt] = JobConsumer(
            bus, worker=name, model=ASSISTANT, slots=4, drain_grace=0, status=self._status, timings=timings
        )
        self._stop = asyncio.Event()

    async def start(self) -> RelayingAssistant:
        await self.children.open()
        await self.consumer.open(self)
        self.running = [asyncio.create_task(self.children.run()), asyncio.create_task(self.consumer.serve(self._stop))]
        return self

    async def kill(self) -> None:
        """End without a word."""
        await self.transport.close()
        tasks = [*self.running, *(each.task for each in self.consumer.attempts if each.task is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def end(self) -> None:
        """Hand the jobs over and end."""
        self._stop.set()
        await asyncio.wait([self.running[1]], timeout=10)
        await self.children.close()
        await asyncio.wait(self.running, timeout=10)

    def open(self, job: Job, delivery: Delivery) -> RelayedAttempt:
        return RelayedAttempt(job, delivery)

    async def begin(self, attempt: RelayedAttempt) -> None:
        self.consumer.admission.enqueue(attempt)
        self.admit()

    def admit(self) -> None:
        while (attempt := self.consumer.admission.admit()) is not None:
            attempt.task = asyncio.create_task(self._relay(attempt))

    def fail(self, attempt: RelayedAttempt, code: FailureCode, message: str) -> None:
        self._end(attempt, Failed(job_id=attempt.job.id, attempt_id=attempt.attempt_id, code=code, message=message))

    def cancel(self, attempt: RelayedAttempt) -> None:
        self._end(attempt, Cancelled(job_id=attempt.job.id, attempt_id=attempt.attempt_id, usage=attempt.usage))

    def abandon(self, attempt: RelayedAttempt) -> None:
        if attempt.task is not None and attempt.task is not asyncio.current_task():
            attempt.task.cancel()

    async def _relay(self, attempt: RelayedAttempt) -> None:
        job = attempt.job
        ids: dict[str, Any] = {"job_id": job.id, "attempt_id": attempt.attempt_id}
        started = Started(worker_id=self.name, prompt_tokens=0, **ids)
        self.consumer.outbox.put(job.reply_to, started, urgent=True)
        delivered = ResumePoint(
            job.delivered, job.ended, [], job.cached_tokens, job.texts, job.text_positions, job.steps
        )
        request = ChildRequest("a", self.model, job.prompt, job.sampling, delivered=delivered if job.begun else None)
        try:
            async with aclosing(self.children.replies(job, request, attempt.delivery.headers)) as replies:
                async for reply in replies:
                    if isinstance(reply, Delta):
                        self.consumer.outbox.put(job.reply_to, msgspec.structs.replace(reply, **ids), urgent=True)
                    elif isinstance(reply, Finished):
                        attempt.used = reply.usage
                        self._end(attempt, Finished(usage=reply.usage, **ids))
        except GenerationError as error:
            self.fail(attempt, FailureCode.ENGINE_ERROR, str(error))

    def _end(self, attempt: RelayedAttempt, terminal: Finished | Failed | Cancelled) -> None:
        if not attempt.ended:
            self.abandon(attempt)
            self.consumer.end(attempt, terminal)
            self.admit()

    def _status(self, state: WorkerState) -> WorkerStatus:
        return WorkerStatus(
            worker=self.name,
            model=ASSISTANT,
            state=state,
            device="none",
            max_model_len=4096,
            max_num_seqs=4,
            running=len(self.consumer.attempts),
            waiting=0,
            kv_cache_usage=0.0,
            tokens_per_second=0.0,
            task=Task.GENERATE,
        )
