"""Child jobs: what they take over from their parents, their ids, their depth, and their errors.

Recovery, continuation and cancellation are tested over both transports in `tests/contract/test_child_jobs.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from router.bus import Bus
from router.errors import BrokerUnavailable, MessageTooLarge, PublishUnknown, QueueFull, TooManyAncestors, Unroutable
from router.messages import MAX_DEPTH, Cancelled, Failed, FailureCode, Job, Reply, ServiceClass, Usage, Window
from router.producer.child_jobs import ChildJobError, ChildJobs, ChildRequest, parent_failure
from router.producer.errors import DeadlinePassed, JobCancelled, JobFailed, UpstreamUnreachable
from router.producer.metrics import ProducerMetrics
from router.timings import Timings
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.fakes.jobs import make_job


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    transport = MemoryTransport(MemoryBroker(), "assistant-1")
    bus = Bus(transport)
    await bus.start()
    yield bus
    await bus.close()


@pytest.fixture
async def children(bus: Bus) -> AsyncIterator[ChildJobs]:
    metrics = ProducerMetrics(CollectorRegistry())
    children = ChildJobs(bus, "assistant-1", metrics, no_worker_timeout=10, max_unread_bytes=2**20)
    await children.open()
    running = asyncio.create_task(children.run())
    yield children
    await children.close()
    await asyncio.wait([running])


def parent_job(**fields: Any) -> Job:
    return make_job("p", created=time.time(), deadline=time.time() + 60, **fields)


def ask(step: str = "s1") -> ChildRequest:
    job = make_job()
    return ChildRequest(step, "m", job.prompt, job.sampling)


async def read(children: ChildJobs, parent: Job, step: str = "s1", headers: dict[str, object] | None = None) -> None:
    async with aclosing(children.replies(parent, ask(step), headers or {})) as replies:
        async for _ in replies:
            pass


async def published(bus: Bus, children: ChildJobs, parent: Job, step: str, headers: dict[str, object]) -> Any:
    """Open a child job, take it as a worker does, and close it."""
    consumer = await bus.jobs("m", parent.service_class, prefetch=1)
    reading = asyncio.create_task(read(children, parent, step, headers))
    envelope = await anext(aiter(consumer))
    reading.cancel()
    await asyncio.wait([reading])
    await consumer.cancel()
    return envelope


async def test_ids_follow_from_parent_and_step_and_a_repetition_is_counted(bus: Bus, children: ChildJobs) -> None:
    await bus.declare_model("m")
    jobs = [(await published(bus, children, parent_job(), step, {})).message for step in ("s1", "a", "s1")]
    assert [each.id for each in jobs] == ["p-s1", "p-a", "p-s1.2"]
    assert {(each.parent, each.depth, each.reply_to) for each in jobs} == {("p", 1, "assistant-1")}


async def test_a_child_job_takes_over_what_its_parent_stands_for(bus: Bus, children: ChildJobs) -> None:
    await bus.declare_model("m")
    parent = parent_job(tenant="t2", requester="u", cache_salt="s", depth=2, service_class=ServiceClass.FLEX)
    headers: dict[str, object] = {"traceparent": "00-1-2-01", "tracestate": "x=1", "x-death": [], "x-delivery-count": 1}
    envelope = await published(bus, children, parent, "a", headers)
    job = envelope.message
    same = ("tenant", "requester", "cache_salt", "service_class", "deadline")
    assert [getattr(job, each) for each in same] == [getattr(parent, each) for each in same]
    assert (job.depth, job.copy_number) == (3, 0)
    assert envelope.delivery.headers.get("traceparent") == "00-1-2-01"
    assert envelope.delivery.headers.get("tracestate") == "x=1"
    assert "x-death" not in envelope.delivery.headers


async def test_a_job_of_the_largest_depth_opens_no_child(children: ChildJobs) -> None:
    with pytest.raises(TooManyAncestors):
        await read(children, parent_job(depth=MAX_DEPTH))
    assert not children._children


async def test_a_job_that_is_not_queued_is_closed(children: ChildJobs) -> None:
    with pytest.raises(Unroutable):
        await read(children, parent_job())
    assert len(children._inbox) == 0
    assert not children._children


@pytest.mark.parametrize("error", [BrokerUnavailable, QueueFull])
async def test_a_job_waits_for_a_broker_that_takes_none(
    bus: Bus, children: ChildJobs, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    await bus.declare_model("m")
    tried = asyncio.Event()

    async def refuse(*_: object) -> None:
        tried.set()
        raise error

    monkeypatch.setattr(bus, "publish_job", refuse)
    reading = asyncio.create_task(read(children, parent_job()))
    await tried.wait()
    monkeypatch.undo()
    consumer = await bus.jobs("m", ServiceClass.DEFAULT, prefetch=1)
    job = (await anext(aiter(consumer))).message
    failed = Failed(job_id=job.id, attempt_id="a", code=FailureCode.INVALID_PROMPT, message="odd")
    bus.send_window("assistant-1", Window(worker_id="w-1", replies=[failed]))
    with pytest.raises(JobFailed):
        await reading


async def test_a_job_whose_publish_was_not_confirmed_is_followed(
    bus: Bus, children: ChildJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bus.declare_model("m")
    publish = bus.publish_job

    async def lose_the_confirm(job: Job, headers: Any) -> None:
        await publish(job, headers)
        raise PublishUnknown

    monkeypatch.setattr(bus, "publish_job", lose_the_confirm)
    reading = asyncio.create_task(read(children, parent_job()))
    consumer = await bus.jobs("m", ServiceClass.DEFAULT, prefetch=1)
    job = (await anext(aiter(consumer))).message
    failed = Failed(job_id=job.id, attempt_id="a", code=FailureCode.INVALID_PROMPT, message="odd")
    bus.send_window("assistant-1", Window(worker_id="w-1", replies=[failed]))
    with pytest.raises(JobFailed):
        await reading


async def test_a_broker_that_stays_away_fails_a_job(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = ProducerMetrics(CollectorRegistry())
    timings = Timings(unreachable_after=0.2)
    children = ChildJobs(bus, "assistant-2", metrics, no_worker_timeout=10, max_unread_bytes=2**20, timings=timings)
    await children.open()

    async def refuse(*_: object) -> None:
        raise BrokerUnavailable

    monkeypatch.setattr(bus, "publish_job", refuse)
    with pytest.raises(BrokerUnavailable):
        await read(children, parent_job())
    assert not children._children
    await children.close()


@pytest.mark.parametrize(
    ("terminal", "error"),
    [
        (Failed(job_id="p-s1", attempt_id="a", code=FailureCode.INVALID_PROMPT, message="odd"), JobFailed),
        (Cancelled(job_id="p-s1", attempt_id="a", usage=Usage(prompt_tokens=1)), JobCancelled),
    ],
)
async def test_other_ends_are_errors(bus: Bus, children: ChildJobs, terminal: Reply, error: type[Exception]) -> None:
    await bus.declare_model("m")
    reading = asyncio.create_task(read(children, parent_job()))
    consumer = await bus.jobs("m", ServiceClass.DEFAULT, prefetch=1)
    await anext(aiter(consumer))
    bus.send_window("assistant-1", Window(worker_id="w-1", replies=[terminal]))
    with pytest.raises(error):
        await reading
    assert not children._children


async def test_a_failure_of_the_inbox_fails_all_child_jobs(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = ProducerMetrics(CollectorRegistry())
    children = ChildJobs(bus, "assistant-2", metrics, no_worker_timeout=10, max_unread_bytes=2**20)
    await bus.declare_model("m")
    await children.open()
    broken = asyncio.Event()

    async def fail(_windows: object) -> None:
        await broken.wait()
        raise RuntimeError("broken")

    monkeypatch.setattr(children._inbox, "run", fail)
    running = asyncio.create_task(children.run())
    reading = asyncio.create_task(read(children, parent_job()))
    while not children._children:
        await asyncio.sleep(0)
    broken.set()
    with pytest.raises(UpstreamUnreachable):
        await reading
    with pytest.raises(ExceptionGroup):
        await running
    await children.close()


@pytest.mark.parametrize(
    ("error", "code", "param"),
    [
        (
            JobFailed(Failed(job_id="c", attempt_id="a", code=FailureCode.INVALID_PROMPT, message="No.", param="x")),
            FailureCode.INVALID_PROMPT,
            "x",
        ),
        (DeadlinePassed(), FailureCode.DEADLINE_EXCEEDED, None),
        (UpstreamUnreachable(), FailureCode.WORKER_LOST, None),
        (TooManyAncestors("4"), FailureCode.INVALID_PARAMETER, "model"),
        (Unroutable("q"), FailureCode.WORKER_LOST, None),
        (MessageTooLarge("q"), FailureCode.INVALID_PARAMETER, None),
    ],
)
def test_a_parent_fails_as_its_child_job_did(error: ChildJobError, code: FailureCode, param: str | None) -> None:
    failure = parent_failure(error)
    assert (failure.code, failure.param) == (code, param)
    assert "q" not in failure.message.split(), "the message is for the client"
