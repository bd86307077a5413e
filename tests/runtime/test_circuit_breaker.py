"""Closed, open, one probe, closed again."""

from __future__ import annotations

from runtime.circuit_breaker import FAILURES, LONGEST_REST_SECONDS, REST_SECONDS, CircuitBreaker


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def fail(breaker: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        breaker.enter()
        breaker.failed()


def test_it_opens_after_some_failures_in_a_row_only() -> None:
    breaker = CircuitBreaker(Clock())
    fail(breaker, FAILURES - 1)
    breaker.enter()
    breaker.succeeded()
    fail(breaker, FAILURES - 1)
    assert not breaker.open
    fail(breaker, 1)
    assert breaker.open
    assert breaker.rest == REST_SECONDS


def test_after_its_rest_one_request_finds_out() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock)
    fail(breaker, FAILURES)
    clock.now += REST_SECONDS
    assert not breaker.open
    breaker.enter()
    assert breaker.open  # for everybody else
    breaker.failed()
    assert breaker.open
    clock.now += REST_SECONDS
    breaker.enter()
    breaker.left()  # nothing was learnt: the next one is let out
    assert not breaker.open
    breaker.enter()
    breaker.succeeded()
    assert not breaker.open
    breaker.enter()
    assert not breaker.open


def test_a_pause_is_kept_and_bounded() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock)
    breaker.enter()
    breaker.pause(10**9)
    assert breaker.rest == LONGEST_REST_SECONDS
    clock.now += LONGEST_REST_SECONDS
    assert not breaker.open
