"""Child jobs of an assistant, over both transports: order, recovery, continuation, and cancellation."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from router.bus import Bus
from router.messages import ChatPrompt, Delta, Finished, Job, Outcome, Reply, SamplingParams, ServiceClass, Started
from router.producer.child_jobs import ChildJobs, ChildRequest
from router.producer.errors import JobCancelled
from router.producer.job_output import ResumePoint
from router.producer.metrics import ProducerMetrics
from router.timings import Timings
from tests.contract.conftest import MakeTransport
from tests.fakes.fleet import MODEL, Answer, Fleet, FleetWorker, counted, until
from tests.fakes.jobs import make_job
from tests.fakes.relaying_assistant import ASSISTANT, RelayingAssistant

HEADERS = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x-delivery-count": 1}
TIMINGS: dict[str, Any] = {"gateway_grace": 0.1}


class Assistant:
    """A process that has a parent job and opens child jobs for it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.metrics = ProducerMetrics(CollectorRegistry())
        self.text = ""
        self.ids: list[int] = []
        self.replies: list[Reply] = []

    async def start(self, make_transport: MakeTransport) -> Assistant:
        self.transport = await make_transport(self.name)
        self.children = ChildJobs(
            Bus(self.transport),
            self.name,
            self.metrics,
            no_worker_timeout=20,
            max_unread_bytes=2**20,
            timings=Timings(**TIMINGS),
        )
        await self.children.open()
        self.running = asyncio.create_task(self.children.run())
        return self

    async def read(self, request: ChildRequest, parent: Job | None = None) -> None:
        """Read a child job to its end."""
        async with aclosing(self.children.replies(parent or parent_job(), request, HEADERS)) as replies:
            async for reply in replies:
                self.replies.append(reply)
                if isinstance(reply, Delta):
                    self.text += reply.text
                    self.ids += reply.token_ids

    async def kill(self) -> None:
        """End without cancelling anything."""
        await self.transport.close()
        self.running.cancel()
        await asyncio.wait([self.running])

    async def end(self) -> None:
        await self.children.close()
        await asyncio.wait([self.running], timeout=5)


def parent_job(**fields: Any) -> Job:
    now = time.time()
    given = {"tenant": "t", "requester": "u", "cache_salt": "salt", "service_class": ServiceClass.PRIORITY, **fields}
    return make_job("p", model="assistant", created=now, deadline=now + 60, **given)


def ask(tokens: int = 40, **fields: Any) -> ChildRequest:
    prompt = ChatPrompt(messages=[{"role": "user", "content": "count"}])
    return ChildRequest("a", MODEL, prompt, SamplingParams(seed=1, max_tokens=tokens), **fields)


async def test_a_child_job_is_its_parents_and_its_replies_come_in_order(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport, **TIMINGS) as fleet:
        assistant = await Assistant("assistant-1").start(make_transport)
        worker, parent = await fleet.start("worker-1", step_time=None), parent_job()
        reading = asyncio.create_task(assistant.read(ask(), parent))
        await until(lambda: worker.engine.requests)
        [attempt] = worker.worker._consumer.attempts
        job = attempt.job
        assert (job.id, job.parent, job.depth, job.reply_to) == ("p-a", "p", 1, "assistant-1")
        assert (job.tenant, job.requester, job.cache_salt, job.service_class) == ("t", "u", "salt", "priority")
        assert job.deadline == parent.deadline
        assert attempt.delivery.headers.get("traceparent") == HEADERS["traceparent"]
        worker.engine.step(50)
        await reading
        assert assistant.text == counted(40)
        assert isinstance(assistant.replies[-1], Finished)
        kinds = [type(each) for each in assistant.replies[:-1]]
        assert kinds[0] is Started
        assert set(kinds) == {Started, Delta}
        await assistant.end()


async def test_a_child_job_continues_when_its_worker_dies(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport, **TIMINGS) as fleet:
        assistant = await Assistant("assistant-1").start(make_transport)
        first = await fleet.start("worker-1", step_time=None)
        reading = asyncio.create_task(assistant.read(ask(100)))
        await until(lambda: first.engine.requests)
        first.engine.step(10)
        await until(lambda: len(assistant.ids) == 10)
        await fleet.start("worker-2")
        await first.kill()
        await reading
        assert assistant.text == counted(100)
        assert assistant.metrics.resumed._value.get() == 1
        await assistant.end()


@pytest.mark.parametrize("how", ["iterator closed", "parent ended", "assistant dead"])
async def test_a_child_job_is_cancelled(make_transport: MakeTransport, how: str) -> None:
    async with Fleet(make_transport, **TIMINGS) as fleet:
        assistant = await Assistant("assistant-1").start(make_transport)
        worker = await fleet.start("worker-1", step_time=None)
        reading = asyncio.create_task(assistant.read(ask()))
        await until(lambda: worker.engine.requests)
        worker.engine.step(3)
        await until(lambda: len(assistant.ids) == 3)
        began = time.monotonic()
        if how == "iterator closed":
            reading.cancel()
        elif how == "parent ended":
            assistant.children.cancel("p")
            with pytest.raises(JobCancelled):
                await reading
        else:
            reading.cancel()
            assistant.children._inbox._jobs.clear()  # so that no cancel is sent
            await assistant.kill()
            worker.engine.step(1)
        await until(lambda: fleet.records)
        [record] = fleet.records
        assert (record.job, record.outcome) == ("p-a", Outcome.CANCELLED)
        assert not worker.engine.requests
        assert time.monotonic() - began < 5
        if how != "assistant dead":
            await assistant.end()


def attempts(worker: FleetWorker) -> list[tuple[str, str]]:
    return [(each.job.id, each.job.reply_to) for each in worker.worker._consumer.attempts]


@pytest.mark.parametrize("dies", [False, True], ids=["worker lives", "worker dies"])
async def test_another_assistant_continues_the_answer_of_a_dead_one(make_transport: MakeTransport, dies: bool) -> None:
    async with Fleet(make_transport, **TIMINGS) as fleet:
        first, second = [await Assistant(f"assistant-{each}").start(make_transport) for each in (1, 2)]
        worker = await fleet.start("worker-1", step_time=None)
        reading = asyncio.create_task(first.read(ask()))
        await until(lambda: worker.engine.requests)
        worker.engine.step(10)
        await until(lambda: len(first.ids) == 10)
        if dies:  # the first assistant handed its job over: the worker remembers the id of the cancelled child job
            reading.cancel()
            await asyncio.wait([reading])
        await first.kill()
        reading.cancel()

        delivered = ResumePoint([first.ids], [], [], 0, [], [], [])
        reading = asyncio.create_task(second.read(ask(delivered=delivered)))
        await until(lambda: any(each.delivered for each in worker.engine.requests))
        worker.engine.step(7)
        await until(lambda: attempts(worker) == [("p-a", "assistant-2")])
        await until(lambda: len(second.ids) == 7)
        if dies:
            other = await fleet.start("worker-2", step_time=None)
            await worker.kill()
            worker = other
            await until(lambda: worker.engine.requests)
        worker.engine.step(50)
        await reading
        assert len(first.ids + second.ids) == 40
        assert first.text + second.text == counted(40)
        assert second.metrics.resumed._value.get() == dies
        await second.end()


async def test_a_text_that_a_provider_sent_is_continued(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport, **TIMINGS) as fleet:
        assistant = await Assistant("assistant-1").start(make_transport)
        await fleet.start("worker-1")
        await assistant.read(ask(delivered=ResumePoint([[]], [], [], 0, [counted(5)], [3], [])))
        deltas = [each for each in assistant.replies if isinstance(each, Delta)]
        assert deltas[0].start == 3
        assert counted(5) + assistant.text == counted(40)
        await assistant.end()


async def test_a_step_that_was_cancelled_can_be_repeated_at_once(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport, **TIMINGS) as fleet:
        assistant = await Assistant("assistant-1").start(make_transport)
        worker = await fleet.start("worker-1")
        async with aclosing(assistant.children.replies(parent_job(), ask(), HEADERS)) as replies:
            await anext(replies)
        await assistant.read(ask())
        assert assistant.text == counted(40)
        await until(lambda: len(fleet.records) == 2)
        assert {each.job for each in fleet.records} == {"p-a", "p-a.2"}
        assert not worker.engine.requests
        await assistant.end()


async def test_an_answer_outlives_its_assistants_and_their_workers(make_transport: MakeTransport) -> None:
    """Three assistants and two workers die in turn; the gateway gets each token once."""
    async with Fleet(make_transport, **TIMINGS) as fleet:
        await fleet.bus.declare_model(ASSISTANT)
        worker = await fleet.start("worker-0", step_time=None)
        assistant = await start_relay(make_transport, 0)
        answer = await fleet.ask("p", 60, model=ASSISTANT)
        for number in range(1, 4):
            await until(lambda: worker.engine.requests)  # noqa: B023
            await step(worker, answer, answer.tokens + 5)
            if number < 3:
                other = await fleet.start(f"worker-{number}", step_time=None)
                await worker.kill()
                worker = other
                await until(lambda: worker.engine.requests)  # noqa: B023
                await step(worker, answer, answer.tokens + 5)
            following = await start_relay(make_transport, number)
            if number == 2:
                await assistant.end()  # hands its job over
            else:
                await assistant.kill()
            assistant = following
        await step(worker, answer, 60)
        await answer.read()
        assert answer.texts == [counted(60)]
        assert isinstance(answer.terminal, Finished)
        await assistant.end()


async def start_relay(make_transport: MakeTransport, number: int) -> RelayingAssistant:
    name = f"assistant-{number}"
    return await RelayingAssistant(await make_transport(name), name, MODEL, Timings(**TIMINGS)).start()


async def step(worker: FleetWorker, answer: Answer, tokens: int) -> None:
    """Compute one token after the other until the client has so many."""
    async with asyncio.timeout(20):
        while answer.tokens < tokens:
            worker.engine.step(1)
            await answer.unread.wait(0.02)
            await answer.read(answer.tokens)
            for arrival in answer.unread.take_all():
                answer._take(arrival.reply)
