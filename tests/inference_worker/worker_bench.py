"""Test bench of the worker: a worker on the in-memory transport, and the messages that it publishes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from inference_worker.settings import WorkerSettings
from inference_worker.worker.engine_client import EngineClient
from inference_worker.worker.generation_handler import GenerationHandler
from inference_worker.worker.metrics import WorkerMetrics
from inference_worker.worker.worker import Worker
from router import control_targets, topology
from router.bus import Bus
from router.messages import (
    ChatPrompt,
    Delta,
    Job,
    Prompt,
    Reply,
    Resume,
    ResumeDecision,
    ResumeRequest,
    SamplingParams,
    ServiceClass,
    Terminal,
    UsageRecord,
    WorkerState,
    WorkerStatus,
)
from router.timings import DEFAULT_TIMINGS, Timings
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.counting_text import counting_text

MODEL = "counting"
CHAT = ChatPrompt(messages=[{"role": "user", "content": "count"}])


def make_job(id_: str, *, prompt: Prompt = CHAT, max_tokens: int | None = 3, **fields: Any) -> Job:
    """Return a job for the counting engine."""
    sampling = fields.pop("sampling", SamplingParams(seed=1, max_tokens=max_tokens))
    now = time.time()
    values = {"tenant": "t", "reply_to": "gateway-1", "created": now, "deadline": now + 60, **fields}
    return Job(id=id_, model=MODEL, prompt=prompt, sampling=sampling, **values)


class Bench:
    """One worker, its broker, and the replies, records and heartbeats that it published."""

    def __init__(self, engine: EngineClient | None = None, timings: Timings = DEFAULT_TIMINGS, **settings: Any) -> None:
        """Create a worker of `engine`, by default of a counting engine (attribute `engine`)."""
        self.broker = MemoryBroker()
        self.transport = MemoryTransport(self.broker, "worker-1")
        self.outside = Bus(MemoryTransport(self.broker, "gateway-1"))
        self.bus = Bus(self.transport)
        self.engine = CountingEngine(capacity=settings.get("max_num_seqs", 4))
        self.settings = WorkerSettings(**{"model": MODEL, "max_num_seqs": 4, **settings})
        self.stop, self.hand_over = asyncio.Event(), asyncio.Event()
        metrics = self.metrics = WorkerMetrics(CollectorRegistry(), MODEL)
        self.worker = Worker(
            self.bus,
            engine or self.engine,
            partial(GenerationHandler, counting_text()),
            self.settings,
            metrics,
            model=MODEL,
            hand_over=self.hand_over,
            timings=timings,
        )
        self.replies: list[Reply] = []
        self.records: list[UsageRecord] = []
        self.statuses: list[WorkerStatus] = []
        self.permits = True
        """Whether the gateway permits jobs of a crashed engine to run again, or does not answer."""
        self.running: asyncio.Task[None] | None = None
        self._collectors: list[asyncio.Task[None]] = []

    @contextlib.asynccontextmanager
    async def up(self) -> AsyncIterator[Bench]:
        """Start the worker and wait until it is ready; stop it at the end."""
        await self.outside.start()
        await self.bus.start()
        await self.outside.declare_model(MODEL)
        inbox = await self.outside.replies("gateway-1")
        statuses = await self.outside.statuses()
        usage = await self.outside.settlements(prefetch=100)
        self._collectors = [
            asyncio.create_task(self._collect_replies(inbox)),
            asyncio.create_task(self._collect_records(usage)),
            asyncio.create_task(self._collect_statuses(statuses)),
        ]
        self.inbox = inbox
        running = self.running = asyncio.create_task(self.worker.run(self.stop))
        try:
            await self.until(
                lambda: running.done() or any(status.state is WorkerState.READY for status in self.statuses)
            )
            yield self
        finally:
            self.hand_over.set()
            self.stop.set()
            await asyncio.wait([self.running], timeout=10)
            for task in self._collectors:
                task.cancel()
            await self.bus.close()
            await self.outside.close()

    async def send(self, *jobs: Job) -> None:
        """Publish jobs, as a gateway does."""
        for job in jobs:
            await self.outside.publish_job(
                job, {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
            )

    async def until(self, condition: Callable[[], object], seconds: float = 20.0) -> None:
        """Wait until `condition` is true, at most `seconds`."""
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.002)

    async def submitted(self, count: int) -> None:
        """Wait until `count` requests were submitted to the engine."""
        await self.until(lambda: len(self.engine.submitted) >= count)

    def of(self, job: str) -> list[Reply]:
        """Return the replies of a job."""
        return [reply for reply in self.replies if reply.job_id == job]

    def terminals(self, job: str) -> list[Terminal]:
        """Return the terminal replies of a job."""
        return [reply for reply in self.of(job) if isinstance(reply, Terminal)]

    def text(self, job: str, choice: int = 0) -> str:
        """Return the text of one choice."""
        return "".join(reply.text for reply in self.of(job) if isinstance(reply, Delta) and reply.choice == choice)

    async def ended(self, job: str) -> tuple[Terminal, UsageRecord]:
        """Wait for the acknowledgement of a job; return its terminal and its record, exactly one of each."""
        await self.until(lambda: self.terminals(job) and [r for r in self.records if r.job == job])
        await self.until(lambda: self.worker._consumer.attempts.of_job(job) is None)
        records = [record for record in self.records if record.job == job]
        (terminal,), (record,) = self.terminals(job), records
        assert self.of(job)[-1] is terminal
        return terminal, record

    def unsettled(self) -> int:
        """Return the number of unacknowledged deliveries."""
        return len(self.worker._consumer.attempts)

    def queued(self, service_class: ServiceClass = ServiceClass.DEFAULT) -> int:
        """Return the number of ready messages in a job queue."""
        return len(self.broker.queue(topology.job_queue(MODEL, service_class)))

    def permit(self, worker: str, request: ResumeRequest) -> None:
        """Permit a job to run again, as a gateway does after a first crash or a second."""
        solo = request.crashes >= DEFAULT_TIMINGS.solo_after_crashes
        start = ResumeDecision.START
        answer = Resume(
            job=request.job_id, attempt=request.attempt_id, decision=start, solo=solo, crashes=request.crashes
        )
        self.outside.send_control(control_targets.worker(worker), answer)

    async def _collect_replies(self, inbox: Any) -> None:
        async for window in inbox:
            self.replies.extend(window.replies)
            for reply in window.replies:
                if isinstance(reply, ResumeRequest) and reply.crashes and self.permits:
                    self.permit(window.worker_id, reply)

    async def _collect_records(self, usage: Any) -> None:
        async for envelope in usage:
            self.records.append(envelope.message)
            envelope.delivery.ack()

    async def _collect_statuses(self, statuses: Any) -> None:
        async for status in statuses:
            self.statuses.append(status)
