"""A worker drains, and answers redelivered jobs once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

from router import control_targets
from router.bus import Envelope
from router.messages import Drain, Job, ServiceClass, WorkerState
from router.transport.base import Delivery
from tests.inference_worker.worker_bench import Bench, make_job


async def test_a_drain_finishes_running_jobs_and_returns_waiting_ones() -> None:
    async with Bench(max_num_seqs=1, drain_grace=5).up() as bench:
        await bench.send(make_job("first", max_tokens=2), make_job("second", max_tokens=2))
        await bench.submitted(2)
        await bench.send(make_job("flex", service_class=ServiceClass.FLEX))
        await bench.until(lambda: bench.unsettled() == 3)
        bench.outside.send_control(control_targets.worker("worker-1"), Drain())
        await bench.until(lambda: any(status.state is WorkerState.DRAINING for status in bench.statuses))
        await bench.until(lambda: bench.queued(ServiceClass.FLEX) == 1)
        await bench.send(make_job("late"))
        bench.engine.step(4)
        assert bench.running is not None
        await asyncio.wait_for(bench.running, 5)
        await bench.until(lambda: bench.terminals("first") and bench.terminals("second"))
        assert bench.queued() == 1
    assert bench.terminals("flex") == bench.terminals("late") == []


async def test_a_second_signal_hands_running_jobs_back_at_once() -> None:
    async with Bench(drain_grace=60).up() as bench:
        await bench.send(make_job("j", max_tokens=100))
        await bench.submitted(1)
        bench.engine.step()
        bench.stop.set()
        bench.hand_over.set()
        assert bench.running is not None
        await asyncio.wait_for(bench.running, 5)
        assert bench.queued() == 1
    assert bench.terminals("j") == []
    assert bench.records == []


async def test_a_duplicate_of_a_running_job_is_answered_once() -> None:
    async with Bench().up() as bench:
        await bench.send(make_job("j"), make_job("j"))
        await bench.submitted(1)
        bench.engine.step(3)
        await bench.ended("j")
        assert bench.engine.starts == len(bench.engine.submitted) == 1


class Redelivered:
    """A delivery whose settlement the test can inspect."""

    headers: Mapping[str, str] = {}
    delivery_count = 1

    def __init__(self, *, lost: bool = False) -> None:
        self.lost = lost
        self.settled: list[str] = []

    def ack(self) -> None:
        self.settled.append("ack")


async def with_lost_delivery(bench: Bench) -> Job:
    """Return a running job whose delivery was lost with the connection."""
    await bench.send(make_job("j"))
    await bench.submitted(1)
    running = bench.worker._consumer.attempts.of_job("j")
    assert running is not None
    running.delivery = cast(Delivery, Redelivered(lost=True))
    return running.job


async def test_a_job_redelivered_after_a_reconnect_continues_and_acknowledges_the_new_delivery() -> None:
    async with Bench().up() as bench:
        job = await with_lost_delivery(bench)
        again = Redelivered()
        bench.worker._consumer._receive(Envelope(job, cast(Delivery, again)))
        bench.engine.step(3)
        await bench.ended("j")
    assert again.settled == ["ack"]
    assert len(bench.engine.submitted) == 1


async def test_a_finished_job_that_is_redelivered_is_only_acknowledged() -> None:
    async with Bench().up() as bench:
        job = await with_lost_delivery(bench)
        bench.engine.step(3)
        await bench.ended("j")
        again = Redelivered()
        bench.worker._consumer._receive(Envelope(job, cast(Delivery, again)))
        assert again.settled == ["ack"]
        assert len(bench.worker._consumer.attempts) == 0
    assert len(bench.terminals("j")) == 1
