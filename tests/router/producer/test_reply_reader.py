"""The reader of a request's replies: deadline, silence, and workers that could still answer."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from router.messages import Delta, Started, WorkerState
from router.model_registry import ModelRegistry
from router.producer.errors import DeadlinePassed, GenerationError, ModelUnavailable, UpstreamUnreachable, WorkerLost
from router.producer.recovery import JobRecovery
from router.producer.recovery_driver import OpenJob
from router.producer.recovery_events import BrokerHealth, ReplyReceived
from router.producer.reply_reader import ReplyReader, ReplySource
from router.producer.unread_replies import UnreadReplies
from router.timings import Timings
from router.transport.base import ConnectionState
from tests.contract.examples import STATUS, msgspec_replace
from tests.fakes.jobs import make_job

TIMINGS = Timings(silence_check_interval=0.01, unreachable_after=0.05)


def reader_of(
    *, seconds: float = 60.0, begin_by: float = 0.0, state: ConnectionState = ConnectionState.UP, limit: float = 0.02
) -> ReplyReader:
    now = time.time()
    job = make_job(created=now, deadline=now + seconds, begin_by=begin_by and now + begin_by)
    bus: Any = SimpleNamespace(state=state, lost_at=float("-inf"))
    opened = OpenJob(0, JobRecovery(job, BrokerHealth(), TIMINGS, time.monotonic()), UnreadReplies(1000))
    return ReplyReader(ReplySource(bus, ModelRegistry(time.time), TIMINGS, limit), [opened])


def hear(reader: ReplyReader, **fields: Any) -> None:
    reader._source.models.observe(msgspec_replace(STATUS, model="m", **fields))


def start(reader: ReplyReader) -> None:
    reply = Started(job_id="j", attempt_id="a", worker_id="worker-1", prompt_tokens=1)
    reader._jobs[0].recovery.receive(ReplyReceived("worker-1", reply), time.monotonic())


async def error_of(reader: ReplyReader) -> type[GenerationError]:
    with pytest.raises(GenerationError) as raised:
        await read_silence(reader)
    return raised.type


async def read_silence(reader: ReplyReader) -> None:
    while True:
        assert await reader.arrivals() == []


async def test_replies_are_returned_in_order() -> None:
    reader = reader_of()
    replies = [Delta(job_id="j", attempt_id="a", start=each, token_ids=[each]) for each in range(2)]
    for each in replies:
        reader.unread.append(0, each)
    assert [arrival.reply for arrival in await reader.arrivals()] == replies
    assert await reader.arrivals() == []


async def test_a_silent_request_ends_at_its_deadline_or_without_workers() -> None:
    assert await error_of(reader_of()) is ModelUnavailable
    served = reader_of(seconds=0.05)
    hear(served)
    assert await error_of(served) is DeadlinePassed
    late = reader_of(begin_by=0.03, limit=10)
    hear(late)
    assert await error_of(late) is DeadlinePassed
    lost = reader_of()
    start(lost)
    assert await error_of(lost) is WorkerLost


async def test_a_request_waits_longer_for_a_broker_that_is_away() -> None:
    reader = reader_of(state=ConnectionState.DOWN, limit=0.01)
    assert await error_of(reader) is UpstreamUnreachable
    assert time.monotonic() - reader.opened >= TIMINGS.unreachable_after


async def test_a_begun_answer_is_served_by_workers_that_can_continue_it() -> None:
    reader = reader_of()
    start(reader)
    delta = Delta(job_id="j", attempt_id="a", start=0, token_ids=[1])
    reader._jobs[0].recovery.receive(ReplyReceived("worker-1", delta), time.monotonic())
    assert not reader.is_served
    hear(reader, worker="proxy-1", continues=False)
    assert not reader.is_served
    hear(reader, worker="worker-2", state=WorkerState.READY)
    assert reader.is_served
