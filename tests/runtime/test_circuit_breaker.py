"""Closed, open, one probe, closed again."""

from __future__ import annotations

from runtime.circuit_breaker import FAILURES, MAX_OPEN_SECONDS, OPEN_SECONDS, CircuitBreaker


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def fail(breaker: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        breaker.begin_request()
        breaker.record_failure()


def test_it_opens_after_some_failures_in_a_row_only() -> None:
    breaker = CircuitBreaker(Clock())
    fail(breaker, FAILURES - 1)
    breaker.begin_request()
    breaker.record_success()
    fail(breaker, FAILURES - 1)
    assert not breaker.is_open
    fail(breaker, 1)
    assert breaker.is_open
    assert breaker.retry_after == OPEN_SECONDS


def test_after_its_rest_one_request_finds_out() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock)
    fail(breaker, FAILURES)
    clock.now += OPEN_SECONDS
    assert not breaker.is_open
    breaker.begin_request()
    assert breaker.is_open  # for everybody else
    breaker.record_failure()
    assert breaker.is_open
    clock.now += OPEN_SECONDS
    breaker.begin_request()
    breaker.record_cancellation()  # nothing was learnt: the next one is let out
    assert not breaker.is_open
    breaker.begin_request()
    breaker.record_success()
    assert not breaker.is_open
    breaker.begin_request()
    assert not breaker.is_open


def test_a_pause_is_kept_and_bounded() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock)
    breaker.begin_request()
    breaker.open_for(10**9)
    assert breaker.retry_after == MAX_OPEN_SECONDS
    clock.now += MAX_OPEN_SECONDS
    assert not breaker.is_open
