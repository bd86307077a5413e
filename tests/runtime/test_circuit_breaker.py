"""Circuit breaker: closed, open, one probe, closed again."""

from __future__ import annotations

from runtime.circuit_breaker import FAILURES, MAX_OPEN_PERIOD, OPEN_PERIOD, CircuitBreaker


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def fail(breaker: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        breaker.begin_request()
        breaker.record_failure()


def test_it_opens_after_consecutive_failures_only() -> None:
    breaker = CircuitBreaker(Clock())
    fail(breaker, FAILURES - 1)
    breaker.begin_request()
    breaker.record_success()
    fail(breaker, FAILURES - 1)
    assert not breaker.is_open
    fail(breaker, 1)
    assert breaker.is_open
    assert breaker.retry_after == OPEN_PERIOD


def test_after_the_open_time_one_request_is_the_probe() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock)
    fail(breaker, FAILURES)
    clock.now += OPEN_PERIOD
    assert not breaker.is_open
    breaker.begin_request()
    assert breaker.is_open  # for other requests
    breaker.record_failure()
    assert breaker.is_open
    clock.now += OPEN_PERIOD
    breaker.begin_request()
    breaker.record_cancellation()  # without an outcome: the next request is the probe
    assert not breaker.is_open
    breaker.begin_request()
    breaker.record_success()
    assert not breaker.is_open
    breaker.begin_request()
    assert not breaker.is_open


def test_a_requested_open_time_is_kept_and_bounded() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock)
    breaker.begin_request()
    breaker.open_for(10**9)
    assert breaker.retry_after == MAX_OPEN_PERIOD
    clock.now += MAX_OPEN_PERIOD
    assert not breaker.is_open
