"""Replies that do not reach the gateway are sent again or generated again, over both transports."""

from __future__ import annotations

import asyncio
import time

import pytest

from router.bus import Bus
from router.consumer import replay_buffer
from router.messages import (
    Finished,
    Window,
)
from router.transport.base import ConnectionState
from tests.contract.conftest import MakeTransport
from tests.contract.test_resume import settled
from tests.fakes.fleet import GATEWAY, Answer, Fleet, FleetWorker, counted, until


def deafen(worker: FleetWorker, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Lose every window of a worker while the list has something in it."""
    lose: list[object] = []
    send = worker.worker._consumer.outbox._bus.send_window

    def lossy(gateway: str, window: Window) -> None:
        if not lose:
            send(gateway, window)

    monkeypatch.setattr(worker.worker._consumer.outbox._bus, "send_window", lossy)
    return lose


async def half_answered(fleet: Fleet, worker: FleetWorker, tokens: int) -> Answer:
    """Return a request for an answer of `tokens` tokens, of which the first three were received from `worker`."""
    answer = await fleet.ask("j", tokens)
    await until(lambda: worker.engine.requests)
    worker.engine.step(3)
    await answer.read(3)
    return answer


async def generate_again(worker: FleetWorker, answer: Answer, tokens: int) -> None:
    """Generate all of an answer when its job was started a second time; it must arrive complete."""
    await until(lambda: len(worker.engine.submitted) == 2)
    worker.engine.step(tokens)
    await answer.read()
    assert answer.texts == [counted(tokens)]


async def test_lost_windows_are_sent_again(make_transport: MakeTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Fleet(make_transport, watch_interval=0.02, ping_after=0.1) as fleet:
        first = await fleet.start("worker-1", step_time=None)
        answer = await fleet.ask("j", 20, n=2)
        await until(lambda: first.engine.requests)
        lose = deafen(first, monkeypatch)
        first.engine.step(3)
        await answer.read(6)
        lose.append("some in the middle")
        first.engine.step(5)
        await until(lambda: first.worker._handler.tokens == 16)
        await asyncio.sleep(0.05)
        lose.clear()
        first.engine.step(2)
        await answer.read(20)
        lose.append("all to the end")
        first.engine.step(10)
        await until(lambda: not first.has(answer.job))
        lose.clear()
        await answer.read()
        assert answer.texts == [counted(20)] * 2
        assert len(first.engine.submitted) == 1
        assert fleet.metrics.resumed._value.get() == 0


async def test_missing_replies_are_requested_until_the_broker_is_back(
    make_transport: MakeTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first reply after the restart may arrive before requests can be sent."""
    async with Fleet(make_transport, gap_retry_interval=0.005, gap_retries=3) as fleet:
        first = await fleet.start("worker-1", step_time=None)
        answer = await half_answered(fleet, first, 20)
        lose = deafen(first, monkeypatch)
        asked: list[object] = []
        with monkeypatch.context() as broken:
            broken.setattr(Bus, "state", property(lambda _: ConnectionState.DOWN))
            broken.setattr(first.worker._consumer, "_handle_ping", asked.append)
            lose.append("some in the middle")
            first.engine.step(5)
            await until(lambda: first.worker._handler.tokens == 8)
            await asyncio.sleep(0.05)
            lose.clear()
            first.engine.step()
            await until(lambda: len(asked) >= 20)
        first.engine.step(11)
        await answer.read()
        assert answer.texts == [counted(20)]


async def test_replies_that_are_no_longer_stored_are_generated_again(
    make_transport: MakeTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_buffer, "ATTEMPT_BYTES", 400)
    async with Fleet(make_transport) as fleet:
        first = await fleet.start("worker-1", step_time=None)
        answer = await half_answered(fleet, first, 40)
        lose = deafen(first, monkeypatch)
        lose.append("too much")
        first.engine.step(30)
        await until(lambda: first.worker._handler.tokens == 33)
        await asyncio.sleep(0.05)
        lose.clear()
        first.engine.step()
        await generate_again(first, answer, 40)
        assert (await settled(fleet, answer)).usage.completion_tokens == 40


async def test_a_gateway_that_reconnects_late_resumes_its_streams(make_transport: MakeTransport) -> None:
    """docs/design/reliability-contract.md#F10: its workers took it for dead and stopped. It has not heard that, and no
    answer ends with it."""
    async with Fleet(make_transport, watch_interval=0.02, ping_after=0.1) as fleet:
        first = await fleet.start("worker-1", step_time=None)
        answer = await half_answered(fleet, first, 20)
        first.worker._consumer._handle_dead_gateway(GATEWAY)
        await generate_again(first, answer, 20)
        assert isinstance(answer.terminal, Finished)
        assert answer.terminal.usage.completion_tokens == 20


async def test_an_answer_sent_while_the_gateway_was_disconnected_is_generated_again(
    make_transport: MakeTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/design/reliability-contract.md#F7, F8, F10: nothing of it is here, so nothing shows that anything is
    missing."""
    async with Fleet(make_transport, watch_interval=0.02, start_timeout=0.1) as fleet:
        first = await fleet.start("worker-1", step_time=None)
        lose = deafen(first, monkeypatch)
        lose.append("everything")
        answer = await fleet.ask("j", 20)
        await until(lambda: first.engine.requests)
        first.engine.step(20)
        await until(lambda: not first.has(answer.job))
        lose.clear()
        away = time.monotonic()
        monkeypatch.setattr(Bus, "lost_at", property(lambda _: away))
        await generate_again(first, answer, 20)
        assert isinstance(answer.terminal, Finished)
        assert answer.recovery.copies.newest == 1


async def test_a_job_that_stayed_queued_runs_once(
    make_transport: MakeTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Fleet(make_transport, watch_interval=0.02, start_timeout=0.1) as fleet:
        answer = await fleet.ask("j", 20)
        away = time.monotonic()
        monkeypatch.setattr(Bus, "lost_at", property(lambda _: away))
        await until(lambda: answer.recovery.copies.newest == 1)
        worker = await fleet.start("worker-1")
        await answer.read()
        assert answer.texts == [counted(20)]
        assert (await settled(fleet, answer)).usage.completion_tokens == 20
        await until(lambda: not worker.has(answer.job))
        assert len(worker.engine.submitted) == 1
