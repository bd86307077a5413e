"""A worker whose clock is wrong drops no live job (H116)."""

from __future__ import annotations

from typing import Any

import pytest

from router.consumer.gateway_clocks import GatewayClocks
from router.messages import Job
from tests.contract.examples import JOB, msgspec_replace
from tests.fakes.accounts import FakeClock


def job(created: float, seconds: float = 30.0, **changes: Any) -> Job:
    return msgspec_replace(JOB, created=created, deadline=created + seconds, **changes)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def clocks(clock: FakeClock) -> GatewayClocks:
    return GatewayClocks(clock)


def test_queueing_time_is_not_taken_for_clock_skew(clocks: GatewayClocks, clock: FakeClock) -> None:
    for waited in (0.0, 12.0, 29.0, 34.0):  # the last one: the broker was slow
        clocks.observe(job(clock.now - waited))
    assert clocks.now(JOB.reply_to) == clock.now


@pytest.mark.parametrize("off", [3600.0, -3600.0, 40.0, -10.0])
def test_clock_skew_is_corrected(clocks: GatewayClocks, clock: FakeClock, off: float) -> None:
    true = clock.now - off
    clocks.observe(job(true - 2.0))
    assert clocks.now(JOB.reply_to) == pytest.approx(true - 2.0)  # late by the wait, never early
    clocks.observe(job(true))
    assert clocks.now(JOB.reply_to) == pytest.approx(true)
    assert clocks.deadline(job(true)) == pytest.approx(clock.now + 30.0)
    assert clocks.now("another-gateway") == clock.now


def test_a_corrected_clock_is_noticed(clocks: GatewayClocks, clock: FakeClock) -> None:
    clocks.observe(job(clock.now + 3600))
    for _ in range(64):
        clocks.observe(job(clock.now))
    assert clocks.now(JOB.reply_to) == clock.now


def test_one_expired_job_is_not_taken_for_clock_skew(clocks: GatewayClocks, clock: FakeClock) -> None:
    """Published into a connection that was blocked for a minute, and here after its time
    (docs/design/queue-topology.md#acknowledgement)."""
    clocks.observe(job(clock.now - 0.1))
    clocks.observe(job(clock.now - 60.0))
    assert clocks.now(JOB.reply_to) == clock.now


def test_memory_is_bounded(clocks: GatewayClocks, clock: FakeClock) -> None:
    for number in range(200):
        clocks.observe(job(clock.now + 3600, reply_to=f"gateway-{number}"))
    assert len(clocks._ages) == len(clocks._skew) == 64
