"""The recovery driver performs commands: control messages, copies, timers, metrics."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from router import control_targets
from router.errors import BrokerUnavailable
from router.messages import Cancel, Delta, Started
from router.producer.errors import RepliesLost
from router.producer.metrics import ProducerMetrics
from router.producer.recovery_driver import OpenJob, RecoveryDriver
from router.producer.recovery_events import (
    Deliver,
    Drop,
    FailRequest,
    ReplyReceived,
    Republish,
    RequestClosed,
    SendControl,
    StopAttempt,
    WakeAt,
    WorkerUnreachable,
)
from router.producer.unread_replies import UnreadReplies
from router.timings import Timings
from router.transport.base import ConnectionState
from tests.contract.examples import JOB, msgspec_replace
from tests.gateway.conftest import eventually

TIMINGS = replace(Timings(), stop_interval=60.0, watch_interval=60.0)


class Bus:
    """Records what the driver sends."""

    def __init__(self) -> None:
        self.state = ConnectionState.UP
        self.lost_at = float("-inf")
        self.sent: list[tuple[str, Any, bool]] = []
        self.published: list[tuple[int, dict[str, str]]] = []

    def send_control(self, target: str, control: Any, *, mandatory: bool = False) -> None:
        if self.state is ConnectionState.DOWN:
            raise BrokerUnavailable("down")
        self.sent.append((target, control, mandatory))

    async def publish_job(self, job: Any, headers: dict[str, str]) -> None:
        self.published.append((job.copy_number, headers))


@pytest.fixture
def bus() -> Bus:
    return Bus()


@pytest.fixture
def metrics() -> ProducerMetrics:
    return ProducerMetrics(CollectorRegistry())


@pytest.fixture
def driver(bus: Bus, metrics: ProducerMetrics) -> RecoveryDriver:
    return RecoveryDriver(bus, "gateway-1", metrics, TIMINGS, lambda _model: True)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def running(driver: RecoveryDriver, *jobs: OpenJob) -> AsyncIterator[None]:
    task = asyncio.create_task(driver.run({job.recovery.job.id: job for job in jobs}))
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_replies_and_errors_reach_the_request(driver: RecoveryDriver) -> None:
    unread = UnreadReplies(10_000)
    job, reply = driver.open(3, JOB, unread), Delta(job_id=JOB.id, attempt_id="a", start=0, token_ids=[1])
    driver.perform(job, [Deliver(reply), FailRequest(RepliesLost())])
    assert list(unread.peek()) == [(3, reply)]
    assert unread._error is not None


async def test_an_attempt_is_stopped_once_per_interval(driver: RecoveryDriver, bus: Bus) -> None:
    stop = StopAttempt("w-1", "job", "attempt", superseded=True)
    driver.perform(None, [stop, stop, stop._replace(attempt_id="other", superseded=False)])
    cancels = [Cancel(job="job", attempt=attempt, reply_to="gateway-1") for attempt in ("attempt", "")]
    assert [control for _, control, _ in bus.sent] == cancels
    assert {target for target, _, _ in bus.sent} == {control_targets.worker("w-1")}


async def test_control_messages_are_dropped_while_the_broker_is_down(driver: RecoveryDriver, bus: Bus) -> None:
    bus.state = ConnectionState.DOWN
    driver.perform(None, [SendControl("target", Cancel(job="job"))])
    assert bus.sent == []


async def test_dropped_replies_are_counted_by_reason(driver: RecoveryDriver, metrics: ProducerMetrics) -> None:
    driver.perform(None, [Drop(known=False, tokens=5), Drop(known=True, tokens=0)])
    count = metrics.registry.get_sample_value
    assert count("headrace_replies_dropped_total", {"reason": "unknown_job"}) == 1
    assert count("headrace_replies_dropped_total", {"reason": "not_admitted"}) == 1
    assert count("headrace_tokens_after_disconnect_total") == 5


async def test_copies_are_published_with_the_headers_of_the_job(driver: RecoveryDriver, bus: Bus) -> None:
    job = driver.open(0, JOB, UnreadReplies(10_000))
    job.headers = {"traceparent": "x"}
    async with running(driver, job):
        driver.perform(job, [Republish(2)])
        await eventually(lambda: job.recovery.copies.newest == 2)
    assert bus.published == [(2, {"traceparent": "x"})]


async def test_a_later_wake_up_replaces_the_timer_and_closing_cancels_it(driver: RecoveryDriver) -> None:
    job = driver.open(0, JOB, UnreadReplies(10_000))
    driver.perform(job, [WakeAt(time.monotonic() + 60)])
    first = job.timer
    assert first is not None
    driver.perform(job, [WakeAt(time.monotonic() + 30)])
    assert first.cancelled()
    second = job.timer
    assert second is not None
    driver.close(job, cancel=False)
    assert second.cancelled()


async def test_a_copy_that_fails_unexpectedly_does_not_end_the_recovery_of_other_jobs(
    driver: RecoveryDriver, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = bus.publish_job

    async def broken_once(job: Any, headers: dict[str, str]) -> None:
        monkeypatch.setattr(bus, "publish_job", publish)
        raise ValueError("a bug")

    monkeypatch.setattr(bus, "publish_job", broken_once)
    job = driver.open(0, JOB, UnreadReplies(10_000))
    async with running(driver, job):
        for number in (1, 2):
            driver.perform(job, [Republish(number)])
            await asyncio.sleep(0)
        await eventually(lambda: [number for number, _ in bus.published] == [2])


def started(job: OpenJob, worker: str) -> ReplyReceived:
    attempt = f"attempt-of-{job.recovery.job.id}"
    reply = Started(job_id=job.recovery.job.id, attempt_id=attempt, worker_id=worker, prompt_tokens=1)
    return ReplyReceived(worker, reply)


async def test_a_returned_message_concerns_the_jobs_of_its_worker_only(
    driver: RecoveryDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [driver.open(0, msgspec_replace(JOB, id=f"job-{number}"), UnreadReplies(10_000)) for number in range(3)]
    for job, worker in zip(jobs[:2], ("dead", "alive"), strict=True):
        driver.handle(job, started(job, worker))
    handled: list[tuple[OpenJob, object]] = []
    monkeypatch.setattr(driver, "handle", lambda job, event: handled.append((job, event)))
    target = control_targets.worker("dead")
    driver.unreachable(target, {job.recovery.job.id: job for job in jobs})
    assert handled == [(jobs[0], WorkerUnreachable(target))]


async def test_an_unexpected_error_fails_the_request_and_no_other(
    driver: RecoveryDriver, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object, **_options: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(bus, "send_control", broken)
    unread = UnreadReplies(10_000)
    driver.handle(driver.open(0, JOB, unread), RequestClosed(cancel=True))
    with pytest.raises(RepliesLost):
        unread.peek()
