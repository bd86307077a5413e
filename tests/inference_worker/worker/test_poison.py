"""A job that crashes its engine process is given up after three crashes, and no other job fails
(docs/design/reliability-contract.md#F6)."""

from __future__ import annotations

import asyncio
import time

import pytest
from tenacity import wait_none

from auth_billing.reaper import Reaper
from inference_worker.settings import EngineSettings
from inference_worker.worker import job_handler
from inference_worker.worker.engine_process import ProcessEngine
from router.bus import Bus
from router.dead_letters import DeadLetters
from router.errors import BrokerUnavailable
from router.messages import REAPER, Failed, FailureCode, Finished, Outcome, TokenPrompt
from router.topology import JOB_DELIVERY_LIMIT
from router.transport.base import Transport
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.fakes import aborting_engine
from tests.fakes.aborting_engine import POISON, SLOTS
from tests.fakes.fleet import GATEWAY, Fleet, until
from tests.inference_worker.worker_bench import Bench, make_job

TOKENS = 5


async def test_a_poison_message_fails_alone_among_thirty_two_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_handler, "RESTART_WAIT", wait_none())
    engine = ProcessEngine.alone(EngineSettings(model="m"), target=aborting_engine.run)
    others = [f"j{number}" for number in range(SLOTS - 1)]
    async with Bench(engine, max_num_seqs=SLOTS).up() as bench:
        jobs = [make_job(id_, prompt=TokenPrompt([1, 2, 3]), max_tokens=TOKENS) for id_ in others]
        jobs.insert(SLOTS // 2, make_job("poison", prompt=TokenPrompt([1, POISON, 3]), max_tokens=TOKENS))
        await bench.send(*jobs)
        await bench.until(lambda: len(bench.records) == SLOTS, 60)
        for id_ in others:
            terminal, record = await bench.ended(id_)
            assert isinstance(terminal, Finished)
            assert bench.text(id_) == "0 1 2 3 4 "
            assert (record.outcome, record.usage.completion_tokens) == (Outcome.FINISHED, TOKENS)
        failed, record = await bench.ended("poison")
        assert isinstance(failed, Failed)
        assert failed.code is FailureCode.FAILED_REPEATEDLY
        assert record.usage.completion_tokens == 0
        await bench.until(lambda: bench.metrics.engine_restarts._value.get() == 3, 60)
        async with DeadLetters(bench.outside) as letters:
            (kept,) = [letter async for letter in letters]
    assert (kept.id, kept.deaths, kept.closed_by) == ("poison", 3, "worker-1")
    assert "signal 6" in kept.reason
    assert len(bench.records) == SLOTS


@pytest.mark.parametrize("gateway_reconnects", [False, True])
async def test_crashes_that_workers_could_not_report_before_they_died_count(
    monkeypatch: pytest.MonkeyPatch, *, gateway_reconnects: bool
) -> None:
    """Each worker is cut off from the broker when its engine crashes, and killed before the connection is back."""
    monkeypatch.setattr(job_handler, "RESTART_WAIT", wait_none())
    broker = MemoryBroker()

    async def connect(name: str) -> Transport:
        transport = MemoryTransport(broker, name)
        await transport.start()
        return transport

    def unsent(*_: object) -> None:
        raise BrokerUnavailable("cut off")

    async with Fleet(connect, reconnect_resume_timeout=0.05) as fleet:
        answer = await fleet.ask("poison", TOKENS)
        engines = []
        for number in range(3):
            worker = await fleet.start(f"worker-{number}", step_time=None)
            engines.append(worker.engine)
            await until(lambda engine=worker.engine: engine.submitted)  # type: ignore[misc]
            monkeypatch.setattr(worker.worker._consumer._bus, "send_window", unsent)
            worker.engine.die()
            await until(lambda engine=worker.engine: engine.starts == 2)  # type: ignore[misc]
            await asyncio.sleep(0.02)
            if gateway_reconnects:
                monkeypatch.setattr(Bus, "lost_at", time.monotonic())
            await worker.kill()
        last = await fleet.start("worker-3", step_time=None)
        engines.append(last.engine)
        await answer.read()
    assert isinstance(answer.terminal, Failed)
    assert answer.terminal.code is FailureCode.FAILED_REPEATEDLY
    assert [len(engine.submitted) for engine in engines] == [1, 1, 1, 0]


async def test_without_an_answering_gateway_the_delivery_limit_and_the_reaper_end_a_poison_message() -> None:
    """The gateway is alive but does not answer: workers crash with the job until its delivery limit."""
    broker = MemoryBroker()

    async def connect(name: str) -> Transport:
        transport = MemoryTransport(broker, name)
        await transport.start()
        return transport

    async with Fleet(connect) as fleet:
        for task in fleet._tasks[:1]:  # the gateway's consumer of replies
            task.cancel()
        answer = await fleet.ask("poison", TOKENS)
        for number in range(JOB_DELIVERY_LIMIT + 1):
            worker = await fleet.start(f"worker-{number}", step_time=None)
            await until(lambda worker=worker: worker.has(answer.job))  # type: ignore[misc]
            assert bool(worker.engine.submitted) <= (number == 0)
            await worker.kill()
        stop = asyncio.Event()
        reaping = asyncio.create_task(Reaper(fleet.bus).run(stop))
        await until(lambda: fleet.records)
        await until(lambda: len(broker.queue("hr.diagnosed.v1")) == 1)
        async with DeadLetters(fleet.bus) as letters:
            (kept,) = [letter async for letter in letters]
        stop.set()
        await reaping
    assert [(record.job, record.worker, record.outcome) for record in fleet.records] == [
        ("poison", REAPER, Outcome.FAILED)
    ]
    assert (kept.id, kept.code, kept.deaths, kept.closed_by) == ("poison", FailureCode.FAILED_REPEATEDLY, 9, REAPER)
    assert answer.job.reply_to == GATEWAY
