"""A gateway's reply inbox and real workers around counting engines, all in one process: workers can be lost.

Reads a job's answer as a client's request does, and checks that positions are contiguous.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import cache, partial
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry

from inference_worker.settings import WorkerSettings
from inference_worker.worker.generation_handler import GenerationHandler
from inference_worker.worker.job_handler import HandlerFactory
from inference_worker.worker.metrics import WorkerMetrics
from inference_worker.worker.worker import Worker
from router import topology
from router.bus import Bus
from router.messages import ChatPrompt, Delta, Job, Reply, SamplingParams, Terminal, UsageRecord
from router.model_registry import Availability
from router.producer.metrics import ProducerMetrics
from router.producer.recovery import JobRecovery
from router.producer.recovery_driver import OpenJob
from router.producer.recovery_events import JobQueued
from router.producer.reply_inbox import ReplyInbox
from router.timings import DEFAULT_TIMINGS, Timings
from router.transport.base import Transport
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.counting_text import counting_text

MODEL = "counting"
GATEWAY = "gateway-f"
MakeTransport = Callable[[str], Awaitable[Transport]]

shared_text = cache(counting_text)
"""Its ten thousand numbers take longer to read than a test."""


class Answer:
    """What a client has of one job."""

    def __init__(self, job: Job, opened: OpenJob) -> None:
        self.job = job
        self.open = opened
        self.unread = opened.unread
        self.ids: list[list[int]] = [[] for _ in range(job.n)]
        self.positions = [0] * job.n
        self.texts = [""] * job.n
        self.reasoning = [""] * job.n
        self.ends: list[Any] = [None] * job.n
        self.replies: list[Reply] = []
        self.terminal: Terminal | None = None

    @property
    def recovery(self) -> JobRecovery:
        return self.open.recovery

    @property
    def tokens(self) -> int:
        """Positions, of a provider's text too."""
        return sum(self.positions)

    async def read(self, tokens: int | None = None, seconds: float = 30.0) -> None:
        """Take what comes until there are so many tokens, or the job has ended."""
        async with asyncio.timeout(seconds):
            while self.terminal is None and (tokens is None or self.tokens < tokens):
                await self.unread.wait(1.0)
                for arrival in self.unread.take_all():
                    self._take(arrival.reply)

    def _take(self, reply: Reply) -> None:
        self.replies.append(reply)
        if isinstance(reply, Delta):
            assert reply.start == self.positions[reply.choice]
            self.positions[reply.choice] += reply.positions
            assert self.ends[reply.choice] is None
            self.ids[reply.choice] += reply.token_ids
            self.texts[reply.choice] += reply.text
            self.reasoning[reply.choice] += reply.reasoning
            self.ends[reply.choice] = reply.finish_reason
        elif isinstance(reply, Terminal):
            self.terminal = reply


class FleetWorker:
    """One worker of a fleet."""

    model = MODEL
    engine_type = CountingEngine

    def __init__(
        self,
        transport: Transport,
        name: str,
        engine: CountingEngine,
        timings: Timings = DEFAULT_TIMINGS,
        **settings: Any,
    ) -> None:
        self.transport = transport
        self.name = name
        self.engine = engine
        self.stop, self.hand_over = asyncio.Event(), asyncio.Event()
        self.worker = Worker(
            Bus(transport),
            engine,
            self._make_handler(timings),
            WorkerSettings(**dict[str, Any](model=self.model, id=name, max_num_seqs=4, amqp_url="amqp://") | settings),
            WorkerMetrics(CollectorRegistry(), self.model),
            model=self.model,
            hand_over=self.hand_over,
            timings=timings,
        )
        self.running = asyncio.create_task(self._run())

    def _make_handler(self, timings: Timings) -> HandlerFactory:
        del timings
        return partial(GenerationHandler, shared_text())

    async def _run(self) -> None:
        await self.worker.run(self.stop)

    def has(self, job: Job) -> bool:
        """Whether it works at a job."""
        return self.worker._consumer.attempts.of_job(job.id) is not None

    async def kill(self) -> None:
        """Be gone, without a word."""
        self.engine.die()
        await self.transport.close()
        self.running.cancel()
        await asyncio.wait([self.running])

    async def end(self) -> None:
        """Hand everything over and end."""
        self.hand_over.set()
        self.stop.set()
        await asyncio.wait([self.running], timeout=20)


W = TypeVar("W", bound=FleetWorker)


class Fleet:
    """One gateway and its workers on one broker."""

    def __init__(self, make_transport: MakeTransport, **timings: Any) -> None:
        self._make_transport = make_transport
        self.timings = Timings(**timings)
        self.workers: dict[str, FleetWorker] = {}
        self.records: list[UsageRecord] = []
        self.metrics = ProducerMetrics(CollectorRegistry())
        self.availability = Availability.FULL
        """What the gateway believes of its workers."""
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Fleet:
        transport = await self._make_transport(GATEWAY)
        await transport.declare(topology.platform())
        self.bus = Bus(transport)
        await self.bus.declare_model(MODEL)
        self.inbox = ReplyInbox(
            self.bus,
            GATEWAY,
            self.metrics,
            max_unread_bytes=2**24,
            availability=lambda _, *, begun: self.availability,
            timings=self.timings,
        )
        usage = await self.bus.settlements(prefetch=100)
        self._tasks = [
            asyncio.create_task(self.inbox.run(await self.inbox.listen())),
            asyncio.create_task(self._record(usage)),
        ]
        return self

    async def __aexit__(self, *_error: object) -> None:
        for worker in self.workers.values():
            await worker.end()
        for task in self._tasks:
            task.cancel()

    async def start(self, name: str, *, step_time: float | None = 0.005, **settings: Any) -> FleetWorker:
        """One more worker; it takes jobs when this returns."""
        return await self.start_one(FleetWorker, name, step_time=step_time, **settings)

    async def start_one(self, kind: type[W], name: str, *, step_time: float | None = 0.005, **settings: Any) -> W:
        """One more worker of a kind."""
        transport = await self._make_transport(name)
        await transport.declare(topology.platform())
        worker = kind(transport, name, kind.engine_type(step_time=step_time), self.timings, **settings)
        self.workers[name] = worker
        await until(lambda: len(worker.worker._consumer._consumers) > 0 or worker.running.done())
        return worker

    async def ask(self, id_: str, max_tokens: int = 40, **fields: Any) -> Answer:
        """Publish a job, and read its answer as it comes."""
        prompt = fields.pop("prompt", ChatPrompt(messages=[{"role": "user", "content": "count"}]))
        sampling = fields.pop("sampling", SamplingParams(seed=1, max_tokens=max_tokens))
        now = time.time()
        given: dict[str, Any] = {"model": MODEL, "created": now, "deadline": now + 60} | fields
        job = Job(id=id_, tenant="t", reply_to=GATEWAY, prompt=prompt, sampling=sampling, **given)
        answer = Answer(job, self.inbox.open([job])[0])
        await self.bus.publish_job(job, {})
        answer.recovery.receive(JobQueued(), time.monotonic())
        return answer

    def at(self, job: Job) -> FleetWorker:
        """Who works at a job."""
        return next(worker for worker in self.workers.values() if not worker.running.done() and worker.has(job))

    async def _record(self, usage: Any) -> None:
        async for envelope in usage:
            self.records.append(envelope.message)
            envelope.delivery.ack()


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait for something that is about to happen."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


def counted(tokens: int) -> str:
    """The text of so many tokens."""
    return "".join(f"{number} " for number in range(tokens))
