"""A job that loses its worker goes on with another one, over both transports: no gap, no repetition, one bill."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from router.consumer import resumption
from router.messages import Finished, SamplingParams, Started, TextOptions, UsageRecord
from tests.contract.conftest import MakeTransport
from tests.fakes.fleet import Answer, Fleet, counted, until


async def settled(fleet: Fleet, answer: Answer) -> UsageRecord:
    """The one record of a job."""
    await until(lambda: [record for record in fleet.records if record.job == answer.job.id])
    (record,) = [record for record in fleet.records if record.job == answer.job.id]
    return record


async def test_a_stream_goes_on_when_its_worker_is_lost(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport) as fleet:
        await fleet.start("worker-1")
        answers = [await fleet.ask(f"j{number}", 100) for number in range(3)]
        for answer in answers:
            await answer.read(10)
        await fleet.start("worker-2")
        await fleet.workers["worker-1"].kill()
        for answer in answers:
            await answer.read()
            assert answer.texts == [counted(100)]
            assert isinstance(answer.terminal, Finished)
            assert answer.terminal.usage.completion_tokens == 100
            record = await settled(fleet, answer)
            assert (record.worker, record.usage) == ("worker-2", answer.terminal.usage)
        assert [request.delivered for request in fleet.workers["worker-2"].engine.requests] == []
        assert fleet.metrics.resumed._value.get() == 3


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


async def test_an_answer_that_was_whole_but_for_its_end_runs_nowhere(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport) as fleet:
        first = await fleet.start("worker-1", step_time=None)
        answer = await fleet.ask("j", 5)
        await until(lambda: first.engine.requests)
        first.worker._consumer.end = lambda *_: None  # type: ignore[method-assign]  # it dies before it says so
        first.engine.step(5)
        await answer.read(5)
        second = await fleet.start("worker-2", step_time=None)
        await first.kill()
        await answer.read()
        assert second.engine.submitted == []
        assert isinstance(answer.terminal, Finished)
        assert (await settled(fleet, answer)).usage.completion_tokens == 5


async def test_a_worker_that_is_told_to_go_hands_its_streams_over(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport) as fleet:
        first = await fleet.start("worker-1", drain_grace=0.0)
        answer = await fleet.ask("j", 200)
        await answer.read(10)
        await fleet.start("worker-2")
        first.stop.set()
        await asyncio.wait([first.running])
        await answer.read()
    assert answer.texts == [counted(200)]
    assert [type(reply) for reply in answer.replies].count(Started) == 2


async def test_a_living_worker_keeps_its_job_and_the_other_one_waits(
    make_transport: MakeTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumption, "ASK_AGAIN_SECONDS", 0.1)
    async with Fleet(make_transport) as fleet:
        first = await fleet.start("worker-1", step_time=None, max_num_seqs=1)
        answer, filler = await fleet.ask("j", 5), await fleet.ask("filler", 5)
        await until(lambda: len(first.engine.requests) == 2)  # it has no room for the second copy
        second = await fleet.start("worker-2", step_time=None)
        await fleet.bus.publish_job(msgspec.structs.replace(answer.job, attempt=1), {})
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


async def test_an_attempt_that_is_not_heard_any_more_is_told_to_stop(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport) as fleet:
        first = await fleet.start("worker-1")
        answer = await fleet.ask("j", 10_000, sampling=SamplingParams(seed=1))
        await answer.read(10)
        progress = answer.mailbox.progress["j"]
        progress.bind("another attempt", "worker-2")
        await until(lambda: not first.has(answer.job))
        assert first.engine.requests == []
        assert fleet.records == []


async def test_nobody_waits_any_more(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport) as fleet:
        first = await fleet.start("worker-1")
        answer = await fleet.ask("j", 1000)
        await answer.read(10)
        fleet.inbox.close([answer.job])
        second = await fleet.start("worker-2", step_time=None)
        await first.kill()
        await until(lambda: not second.has(answer.job))
        assert second.engine.submitted == []
