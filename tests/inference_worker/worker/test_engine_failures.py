"""A worker whose engine fails, hangs or crashes: jobs continue, suspects are isolated, and in the end it stops."""

from __future__ import annotations

import asyncio
import time

import pytest
from tenacity import wait_none

from inference_worker.engine_protocol import StepReport, TokenEvent
from inference_worker.errors import EngineDied, EngineStartFailed, ImageReaderFailed
from inference_worker.worker import job_handler, restart_policy
from inference_worker.worker.text.processor import TextProcessor
from router import control_targets
from router.dead_letters import DeadLetters
from router.messages import (
    Cancel,
    Failed,
    FailureCode,
    Finished,
    Resume,
    ResumeDecision,
    ResumeRequest,
    TextOptions,
)
from router.timings import Timings
from tests.fakes.counting_text import FIRST
from tests.inference_worker.worker_bench import Bench, make_job


async def test_a_request_that_fails_in_the_engine_fails_alone() -> None:
    async with Bench().up() as bench:
        await bench.send(make_job("bad"), make_job("good"))
        await bench.submitted(2)
        await bench.until(lambda: bench.of("bad"))
        bench.engine.fail(bench.of("bad")[0].attempt_id)
        bench.engine.step(3)
        good, _ = await bench.ended("good")
        terminal, record = await bench.ended("bad")
    assert isinstance(good, Finished)
    assert isinstance(terminal, Failed)
    assert terminal.code is record.error is FailureCode.ENGINE_ERROR
    assert "told to" not in terminal.message


async def test_after_an_engine_crash_jobs_continue_after_their_last_token() -> None:
    async with Bench(max_num_seqs=1).up() as bench:
        await bench.send(make_job("begun", max_tokens=6, text=TextOptions(stop=["1 2 4"])))
        await bench.submitted(1)
        bench.engine.step(3)  # "1 2 " is held back: it may become the stop string
        await bench.until(lambda: bench.text("begun"))
        await bench.send(make_job("waiting", max_tokens=2))
        await bench.submitted(2)
        await bench.until(lambda: bench.worker._handler.tokens == 3)
        bench.engine.die()
        await bench.submitted(3)
        bench.engine.step()
        await bench.submitted(4)
        assert [request.delivered for request in bench.engine.requests] == [[[FIRST, FIRST + 1, FIRST + 2]], []]
        bench.engine.step(8)
        for job, tokens in (("begun", 6), ("waiting", 2)):
            terminal, record = await bench.ended(job)
            assert isinstance(terminal, Finished)
            assert record.usage.completion_tokens == tokens
            assert bench.text(job) == "".join(f"{number} " for number in range(tokens))
    assert bench.engine.starts == 2


async def test_a_hung_engine_is_restarted_and_its_jobs_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_handler, "RESTART_WAIT", wait_none())
    async with Bench(timings=Timings(engine_check_interval=0.02), stall_seconds=0.4).up() as bench:
        await bench.send(make_job("j", max_tokens=6))
        await bench.submitted(1)
        bench.engine.step(3)
        await bench.submitted(2)  # it reports nothing, so it is restarted
        assert [request.delivered for request in bench.engine.requests] == [[[FIRST, FIRST + 1, FIRST + 2]]]
        bench.engine.step(3)
        await bench.ended("j")
        assert bench.text("j") == "0 1 2 3 4 5 "
        starts = bench.engine.starts
        await asyncio.sleep(0.8)
        assert bench.engine.starts == starts, "an engine without work owes nothing"


async def test_jobs_beside_a_poison_message_crash_once_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash jobs run one by one, the one with the most crashes first: only a poison message fails."""
    monkeypatch.setattr(job_handler, "RESTART_WAIT", wait_none())
    async with Bench(max_num_seqs=4).up() as bench:
        await bench.send(make_job("poison"), *(make_job(f"j{number}", max_tokens=50) for number in range(3)))
        await bench.submitted(4)
        attempts = {attempt.job.id: attempt for attempt in bench.worker._consumer.attempts}
        bench.engine.die()
        for submitted in (5, 6):
            await bench.submitted(submitted)
            assert [request.id for request in bench.engine.requests] == [attempts["poison"].attempt_id]
            bench.engine.die()
        failed, _ = await bench.ended("poison")
        assert isinstance(failed, Failed)
        assert failed.code is FailureCode.FAILED_REPEATEDLY
        assert [attempts[f"j{number}"].crashes for number in range(3)] == [1, 1, 1]
        for submitted in (7, 8, 9):  # a job's progress ends its isolation, and the next one runs alone
            await bench.submitted(submitted)
            bench.engine.step()
        bench.engine.step(50)
        for number in range(3):
            terminal, _ = await bench.ended(f"j{number}")
            assert isinstance(terminal, Finished)


async def test_crashes_in_steps_of_another_model_are_not_blamed_on_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_handler, "RESTART_WAIT", wait_none())
    async with Bench(max_num_seqs=4).up() as bench:
        await bench.send(make_job("one", max_tokens=2), make_job("two", max_tokens=2))
        await bench.submitted(2)
        for submitted in (4, 6, 8):  # all jobs at once, not one by one
            bench.engine.die(elsewhere=True)
            await bench.submitted(submitted)
            assert len(bench.engine.requests) == 2
        bench.engine.step(2)
        for job in ("one", "two"):
            terminal, _ = await bench.ended(job)
            assert isinstance(terminal, Finished)


async def test_a_job_that_was_in_a_crashed_engine_runs_again_only_when_its_gateway_permits_it() -> None:
    async with Bench(timings=Timings(resume_request_interval=0.05)).up() as bench:
        bench.permits = False
        await bench.send(make_job("poison"), make_job("begun", max_tokens=5))
        await bench.submitted(2)
        bench.engine.die()
        await bench.until(lambda: bench.engine.starts == 2)
        await bench.until(lambda: len([r for r in bench.of("poison") if isinstance(r, ResumeRequest)]) > 2)
        asked = [reply for reply in bench.of("poison") if isinstance(reply, ResumeRequest)]
        assert {request.crashes for request in asked} == {1}
        assert len(bench.engine.submitted) == 2
        assert not [reply for reply in bench.of("begun") if isinstance(reply, ResumeRequest)], "its turn comes later"
        fail = Resume(job="poison", attempt=asked[0].attempt_id, decision=ResumeDecision.FAIL, crashes=3)
        bench.outside.send_control(control_targets.worker("worker-1"), fail)
        failed, _ = await bench.ended("poison")
        bench.permits = True
        await bench.submitted(3)
        bench.engine.step(5)
        finished, _ = await bench.ended("begun")
    assert isinstance(finished, Finished)
    assert isinstance(failed, Failed)
    assert failed.code is FailureCode.FAILED_REPEATEDLY
    assert len(bench.engine.submitted) == 3


async def test_a_suspect_that_has_begun_and_waits_for_a_slot_has_until_its_deadline() -> None:
    """`begin_by` limits the wait of a job that has not begun."""
    async with Bench(timings=Timings(worker_heartbeat_interval=0.02)).up() as bench:
        await bench.send(*(make_job(f"j{number}", begin_by=time.time() + 1.0) for number in range(2)))
        await bench.submitted(2)
        bench.permits = False
        bench.engine.die()
        await bench.until(lambda: bench.worker._consumer.admission.waiting == 1)
        await asyncio.sleep(1.2)
        assert not bench.terminals("j0") + bench.terminals("j1")


async def test_discarded_tokens_of_a_cancelled_job_are_counted() -> None:
    async with Bench().up() as bench:
        await bench.send(make_job("j", max_tokens=100))
        await bench.submitted(1)
        (request,) = bench.engine.requests
        bench.outside.send_control(control_targets.worker("worker-1"), Cancel(job="j"))
        await bench.ended("j")
        late = TokenEvent(request=request.id, choice=0, position=0, token_ids=[FIRST, FIRST + 1])
        bench.worker._handler.apply(StepReport(events=[late]))
        assert bench.metrics.discarded_tokens._value.get() == 2


async def test_a_job_that_crashes_the_engine_repeatedly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_handler, "RESTART_WAIT", wait_none())
    async with Bench().up() as bench:
        await bench.send(make_job("poison"))
        for crashes in range(1, 4):
            await bench.submitted(crashes)
            bench.engine.die()
        terminal, _ = await bench.ended("poison")
        await bench.until(lambda: bench.engine.alive)
        await bench.until(lambda: bench.unsettled() == 0)
        async with DeadLetters(bench.outside) as letters:
            (kept,) = [letter async for letter in letters]
    assert isinstance(terminal, Failed)
    assert terminal.code is FailureCode.FAILED_REPEATEDLY
    assert (kept.id, kept.code, kept.deaths, kept.closed_by) == ("poison", terminal.code, 3, "worker-1")
    assert "isolated" in kept.reason
    assert "killed by the test" in kept.reason


@pytest.mark.parametrize("young", [True, False])
async def test_an_engine_whose_steps_fail_repeatedly_is_restarted(
    monkeypatch: pytest.MonkeyPatch, *, young: bool
) -> None:
    monkeypatch.setattr(restart_policy, "MIN_UPTIME", 600.0 if young else 0.0)
    async with Bench().up() as bench:
        await bench.send(make_job("good", max_tokens=6), *(make_job(f"bad-{number}") for number in range(3)))
        await bench.submitted(4)
        bench.engine.step(2)
        await bench.until(lambda: bench.worker._handler.tokens == 8)
        await bench.until(lambda: all(bench.of(f"bad-{number}") for number in range(3)))
        for number in range(3):
            bench.engine.fail(bench.of(f"bad-{number}")[0].attempt_id)
        for number in range(3):
            terminal, _ = await bench.ended(f"bad-{number}")
            assert isinstance(terminal, Failed)
            assert terminal.code is FailureCode.ENGINE_ERROR
        if not young:
            await bench.submitted(5)
        bench.engine.step(6)
        terminal, record = await bench.ended("good")
        assert isinstance(terminal, Finished)
        assert bench.text("good") == "0 1 2 3 4 5 "
        assert record.usage.completion_tokens == 6
        assert bench.engine.starts == (1 if young else 2)
        assert not bench.worker._handler._crashes


async def test_images_that_the_worker_could_not_read_are_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise ImageReaderFailed("no process in /models/secret")

    monkeypatch.setattr(TextProcessor, "prepare", fail)
    async with Bench().up() as bench:
        await bench.send(make_job("j"))
        terminal, _ = await bench.ended("j")
    assert isinstance(terminal, Failed)
    assert (terminal.code, terminal.param) == (FailureCode.ENGINE_ERROR, None)
    assert terminal.message == "The worker failed to read the images. Please try again."


async def test_an_engine_that_crashes_too_often_ends_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_handler, "RESTART_WAIT", wait_none())
    async with Bench().up() as bench:
        await bench.send(make_job("waiting"))
        await bench.submitted(1)
        bench.engine.failing_starts = 10
        bench.engine.die()
        assert bench.running is not None
        with pytest.raises(EngineDied, match="4 times within 60 s"):
            await asyncio.wait_for(bench.running, 5)
        assert bench.queued() == 1
    assert bench.terminals("waiting") == []


async def test_an_engine_that_can_not_start_ends_the_worker() -> None:
    bench = Bench()
    bench.engine.failing_starts = 1
    async with bench.up():
        assert bench.running is not None
        with pytest.raises(EngineStartFailed):
            await bench.running
