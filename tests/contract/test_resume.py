"""A job that loses its worker is resumed at another one, over both transports: no gap, no repetition, one bill."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from auth_billing.reaper import Reaper
from gateway.errors import ServerShutdown
from router.dead_letters import DeadLetters
from router.messages import (
    AttemptReport,
    AttemptState,
    Failed,
    FailureCode,
    Finished,
    SamplingParams,
    Started,
    TextOptions,
    UsageRecord,
)
from router.model_registry import Availability
from router.producer.recovery_events import JobState, ReplyReceived
from router.topology import JOB_DELIVERY_LIMIT
from tests.contract.conftest import MakeTransport
from tests.fakes.fleet import Answer, Fleet, counted, until
from tests.fakes.thinking_worker import ThinkingWorker


async def settled(fleet: Fleet, answer: Answer) -> UsageRecord:
    """The one record of a job."""
    await until(lambda: [record for record in fleet.records if record.job == answer.job.id])
    (record,) = [record for record in fleet.records if record.job == answer.job.id]
    return record


def report_lost(fleet: Fleet, answer: Answer) -> None:
    """Make the worker report that it has lost the job."""
    attempt = answer.recovery.attempt_id or ""
    report = AttemptReport(job_id=answer.job.id, attempt_id=attempt, state=AttemptState.LOST)
    fleet.inbox._recovery.handle(answer.open, ReplyReceived("worker-1", report))


def republish(fleet: Fleet, answer: Answer) -> bool:
    """Republish the job, unless the limit of copies is reached."""
    commands = answer.recovery.copies.publish(answer.recovery.output.extent)
    fleet.inbox._recovery.perform(answer.open, commands or [])
    return commands is not None


async def test_a_stream_continues_when_its_worker_dies(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport) as fleet:
        first = await fleet.start("worker-1", step_time=None)
        answers = [await fleet.ask(f"j{number}", 100) for number in range(3)]
        await until(lambda: len(first.engine.requests) == 3)
        first.engine.step(10)
        for answer in answers:
            await answer.read(10)
        await fleet.start("worker-2")
        await first.kill()
        for answer in answers:
            await answer.read()
            assert answer.texts == [counted(100)]
            assert isinstance(answer.terminal, Finished)
            assert answer.terminal.usage.completion_tokens == 100
            record = await settled(fleet, answer)
            assert (record.worker, record.usage) == ("worker-2", answer.terminal.usage)
        assert [request.delivered for request in fleet.workers["worker-2"].engine.requests] == []
        assert fleet.metrics.resumed._value.get() == 3


@pytest.mark.parametrize("tokens", [2, 3, 4, 6])
async def test_reasoning_and_answer_continue_when_their_worker_dies(make_transport: MakeTransport, tokens: int) -> None:
    """The worker dies within the reasoning, before and after the token that ends it, and within the answer."""
    async with Fleet(make_transport) as fleet:
        first = await fleet.start_one(ThinkingWorker, "worker-1", step_time=None)
        answer = await fleet.ask("j", 20)
        await until(lambda: first.engine.requests)
        first.engine.step(tokens)
        await answer.read(tokens)
        await fleet.start_one(ThinkingWorker, "worker-2")
        await first.kill()
        await answer.read()
        assert answer.reasoning == ["0 1 2 "]
        assert answer.texts == [counted(20).removeprefix("0 1 2 3 ")]
        assert isinstance(answer.terminal, Finished)
        usage = answer.terminal.usage
        assert (usage.completion_tokens, usage.reasoning_tokens) == (20, 4)
        record = await settled(fleet, answer)
        assert (record.worker, record.usage) == ("worker-2", usage)


async def kill_often(fleet: Fleet, answer: Answer, times: int) -> None:
    """Kill one worker after the other, each after three more tokens."""
    worker = await fleet.start("worker-0", step_time=None)
    for number in range(times):
        await until(lambda worker=worker: worker.engine.requests)  # type: ignore[misc]
        worker.engine.step(3)
        await answer.read(answer.tokens + 3)
        another = await fleet.start(f"worker-{number + 1}", step_time=None)
        await worker.kill()
        worker = another
    await until(lambda: worker.engine.requests)
    worker.engine.step(200)
    await answer.read()


async def test_a_stream_is_killed_more_often_than_the_broker_returns_a_message(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport) as fleet:
        answer = await fleet.ask("j", 200)
        await kill_often(fleet, answer, JOB_DELIVERY_LIMIT + 3)
        assert answer.texts == [counted(200)]
        assert isinstance(answer.terminal, Finished)
        assert (await settled(fleet, answer)).usage.completion_tokens == 200
        await until(lambda: not fleet.workers[f"worker-{JOB_DELIVERY_LIMIT + 3}"].has(answer.job))
        assert 0 < answer.recovery.copies.newest <= 3


async def test_a_job_over_the_delivery_limit_is_republished(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport, republish_after_deliveries=1000) as fleet:
        stop = asyncio.Event()
        reaping = asyncio.create_task(Reaper(fleet.bus).run(stop))
        answer = await fleet.ask("j", 200)
        await kill_often(fleet, answer, JOB_DELIVERY_LIMIT + 1)
        assert answer.texts == [counted(200)]
        assert answer.recovery.copies.newest == 1
        stop.set()
        await reaping


async def test_choices_that_have_ended_are_not_run_again(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport) as fleet:
        first = await fleet.start("worker-1", step_time=None)
        answer = await fleet.ask("j", n=2, text=TextOptions(stop=["7 "]), max_tokens=20)
        await until(lambda: first.engine.requests)
        first.engine.abort(first.engine.requests[0].id, 1)  # choice 1 lags behind
        first.engine.step(12)
        await answer.read(8)
        assert answer.ends == ["stop", None]
        second = await fleet.start("worker-2", step_time=None)
        await first.kill()
        await until(lambda: second.engine.requests)
        (request,) = second.engine.requests
        assert (len(request.delivered[0]), request.delivered[1], request.ended) == (8, [], [0])
        second.engine.step(12)
        await answer.read()
    assert answer.texts == ["0 1 2 3 4 5 6 "] * 2
    assert isinstance(answer.terminal, Finished)
    assert answer.terminal.usage.completion_tokens == 16


async def test_a_complete_answer_without_its_terminal_reply_is_not_run_again(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport) as fleet:
        first = await fleet.start("worker-1", step_time=None)
        answer = await fleet.ask("j", 5)
        await until(lambda: first.engine.requests)
        first.worker._consumer.end = lambda *_: None  # type: ignore[method-assign]  # it dies before the terminal reply
        first.engine.step(5)
        await answer.read(5)
        second = await fleet.start("worker-2", step_time=None)
        await first.kill()
        await answer.read()
        assert second.engine.submitted == []
        assert isinstance(answer.terminal, Finished)
        assert (await settled(fleet, answer)).usage.completion_tokens == 5


async def test_a_draining_worker_hands_its_streams_over(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport) as fleet:
        first = await fleet.start("worker-1", step_time=None, drain_grace=0.0)
        answer = await fleet.ask("j", 200)
        await until(lambda: first.engine.requests)
        first.engine.step(10)
        await answer.read(10)
        await fleet.start("worker-2")
        first.stop.set()
        await asyncio.wait([first.running])
        await answer.read()
    assert answer.texts == [counted(200)]
    assert [type(reply) for reply in answer.replies].count(Started) == 2


async def test_a_live_worker_keeps_its_job_while_another_waits(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport, resume_timeout=20.0, resume_request_interval=0.1) as fleet:
        first = await fleet.start("worker-1", step_time=None, max_num_seqs=1)
        answer, filler = await fleet.ask("j", 5), await fleet.ask("filler", 5)
        await until(lambda: len(first.engine.requests) == 2)  # it has no free slot for the second copy
        await until(lambda: answer.recovery.attempt_id)
        second = await fleet.start("worker-2", step_time=None)
        await fleet.bus.publish_job(msgspec.structs.replace(answer.job, copy_number=1), {})
        await until(lambda: second.has(answer.job))
        await until(lambda: fleet.metrics.doubted._value.get() >= 2)
        first.engine.step(5)
        await answer.read()
        await filler.read()
        await until(lambda: not second.has(answer.job))
        assert answer.texts == [counted(5)]
        assert second.engine.submitted == []
        assert (await settled(fleet, answer)).worker == "worker-1"
        assert fleet.metrics.resumed._value.get() == 0


async def test_a_waiting_worker_starts_as_soon_as_the_other_one_hands_over(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport, resume_timeout=20.0, resume_request_interval=1000) as fleet:
        first = await fleet.start("worker-1", step_time=None, drain_grace=0.0, max_num_seqs=1)
        answer, filler = await fleet.ask("j", 300), await fleet.ask("filler", 1000)
        await until(lambda: len(first.engine.requests) == 2)
        first.engine.step(5)
        await answer.read(5)
        second = await fleet.start("worker-2")
        await fleet.bus.publish_job(msgspec.structs.replace(answer.job, copy_number=1), {})
        await until(lambda: second.has(answer.job))
        await until(lambda: answer.recovery.state is JobState.STANDBY)
        filler.unread.fail(ServerShutdown())
        first.stop.set()
        await answer.read()
        assert answer.texts == [counted(300)]
        assert answer.recovery.copy_number == 1


async def test_a_superseded_attempt_is_cancelled(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport) as fleet:
        first = await fleet.start("worker-1")
        answer = await fleet.ask("j", 10_000, sampling=SamplingParams(seed=1))
        await answer.read(10)
        answer.recovery._bind("another attempt", "worker-2", time.monotonic())
        await until(lambda: not first.has(answer.job))
        assert first.engine.requests == []
        assert fleet.records == []


async def test_a_redelivered_job_without_a_client_is_acknowledged(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport) as fleet:
        first = await fleet.start("worker-1")
        answer = await fleet.ask("j", 1000)
        await answer.read(10)
        fleet.inbox.close([answer.open], cancel=False)
        second = await fleet.start("worker-2", step_time=None)
        await first.kill()
        await until(lambda: not second.has(answer.job))
        assert second.engine.submitted == []


async def test_a_hanging_worker_is_superseded_and_its_later_replies_are_ignored(
    make_transport: MakeTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Fleet(make_transport, watch_interval=0.02, ping_after=0.1, give_up_after=0.3) as fleet:
        first = await fleet.start("worker-1", step_time=None, max_num_seqs=1)
        answer, filler = await fleet.ask("j", 30), await fleet.ask("filler", 5)
        await until(lambda: len(first.engine.requests) == 2)  # no free slot for a copy
        first.engine.step()
        await answer.read(1)
        await filler.read(1)
        monkeypatch.setattr(first.worker._consumer, "_handle_ping", lambda _: None)
        filler.unread.fail(ServerShutdown())
        await fleet.start("worker-2")
        await answer.read()
        assert answer.texts == [counted(30)]
        first.engine.step(2)  # it wakes up
        await until(lambda: not first.has(answer.job))
        assert (await settled(fleet, answer)).worker == "worker-2"


async def test_a_copy_delivered_to_the_hanging_worker_is_followed_by_another(
    make_transport: MakeTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Fleet(
        make_transport, watch_interval=0.02, ping_after=0.1, give_up_after=0.5, pickup_timeout=0.1
    ) as fleet:
        first = await fleet.start("worker-1", step_time=None)
        answer = await fleet.ask("j", 30)
        await until(lambda: first.engine.requests)
        first.engine.step()
        await answer.read(1)
        monkeypatch.setattr(first.worker._consumer, "_handle_ping", lambda _: None)
        monkeypatch.setattr(first.worker._consumer, "_receive", lambda _: None)
        await fleet.start("worker-2")
        await answer.read()
        assert answer.texts == [counted(30)]
        assert answer.recovery.worker_id == "worker-2"


async def test_a_job_of_a_hanging_worker_is_started_by_one_with_capacity(
    make_transport: MakeTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/design/reliability-contract.md#F3, before its first word: there is nothing to be silent yet."""
    async with Fleet(make_transport, watch_interval=0.02, start_timeout=0.1, pickup_timeout=0.1) as fleet:
        first = await fleet.start("worker-1")
        monkeypatch.setattr(first.worker._consumer, "_receive", lambda _: None)
        answer = await fleet.ask("j", 30)
        await fleet.start("worker-2")
        await asyncio.sleep(0.3)
        assert not answer.recovery.copies.newest, "it may be waiting for its turn"
        fleet.availability = Availability.FREE
        await answer.read()
        assert answer.texts == [counted(30)]
        assert answer.recovery.worker_id == "worker-2"


async def test_a_repeated_report_of_a_lost_job_is_republished_once(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport, pickup_timeout=1000.0) as fleet:
        first = await fleet.start("worker-1", step_time=None)
        answer = await fleet.ask("j", 30)
        await until(lambda: first.engine.requests)
        first.engine.step()
        await answer.read(1)
        first.worker._consumer._receive = lambda _: None  # type: ignore[method-assign, assignment]  # copies lie about
        report_lost(fleet, answer)
        await until(lambda: answer.recovery.copies.newest == 1)
        for _ in range(10):
            report_lost(fleet, answer)
        assert not fleet.inbox._recovery._copies.qsize()
        assert not answer.unread.peek()


async def test_progress_of_an_answer_resets_the_count_of_copies(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport, republish_limit=1) as fleet:
        answer = await fleet.ask("j", 30)
        assert republish(fleet, answer)
        await until(lambda: answer.recovery.copies.newest == 1)
        assert not republish(fleet, answer), "no worker has started it"
        worker = await fleet.start("worker-1", step_time=None)
        await until(lambda: worker.engine.requests)
        worker.engine.step()
        await answer.read(1)
        assert republish(fleet, answer)
        await until(lambda: answer.recovery.copies.newest == 2)
        worker.engine.step(29)
        await answer.read()
        assert answer.texts == [counted(30)]


async def test_a_job_that_crashes_its_workers_fails(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport) as fleet:
        answer = await fleet.ask("poison", 5)
        for number in range(3):
            worker = await fleet.start(f"worker-{number}", step_time=None)
            await until(lambda worker=worker: worker.engine.requests)  # type: ignore[misc]
            taken = worker.worker._consumer.attempts.of_job("poison")
            assert taken is not None
            assert taken.solo == (number == 2)
            await until(lambda number=number: answer.recovery.worker_id == f"worker-{number}")  # type: ignore[misc]
            await worker.kill()
        last = await fleet.start("worker-3", step_time=None)
        await answer.read()
        assert isinstance(answer.terminal, Failed)
        assert answer.terminal.code is FailureCode.FAILED_REPEATEDLY
        assert last.engine.submitted == []
        await until(lambda: not last.has(answer.job))
        async with DeadLetters(fleet.bus) as letters:
            (kept,) = [letter async for letter in letters]
        assert (kept.id, kept.deaths, kept.closed_by) == ("poison", 3, "worker-3")


async def test_crashes_that_a_worker_counted_stay_with_the_job(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport) as fleet:
        first = await fleet.start("worker-1", step_time=None, drain_grace=0.0)
        answer = await fleet.ask("suspect", 5)
        await until(lambda: first.engine.requests)
        first.engine.die()
        await until(lambda: len(first.engine.submitted) == 2)
        second = await fleet.start("worker-2", step_time=None)
        first.stop.set()
        await until(lambda: second.engine.requests)
        taken = second.worker._consumer.attempts.of_job("suspect")
        assert taken is not None
        assert taken.crashes == 1
        second.engine.step(5)
        await answer.read()
        assert answer.texts == [counted(5)]
