"""The retry policy: bounds and growth of the delays, in loops and with tenacity."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest
from tenacity import AsyncRetrying, wait_none

from runtime.retry import DEFAULT_WAIT, Backoff, delay_after, exponential_backoff

WAIT = exponential_backoff(first=0.5, longest=30.0)


@pytest.mark.parametrize(
    ("failures", "longest"), [(1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (7, 30.0), (10_000, 30.0), (10**9, 30.0)]
)
def test_a_delay_is_between_half_and_all_of_the_doubled_time(failures: int, longest: float) -> None:
    delays = [delay_after(failures, WAIT) for _ in range(200)]
    assert longest / 2 <= min(delays) < max(delays) <= longest
    assert max(delays) - min(delays) > longest / 4


async def test_a_loop_waits_longer_after_each_failure_until_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(random, "uniform", lambda _low, high: high)
    backoff = Backoff(WAIT)
    for _ in range(3):
        await backoff.sleep()
    assert backoff.failures == 3
    backoff.reset()
    await backoff.sleep()
    assert slept == [0.5, 1.0, 2.0, 0.5]


async def test_the_same_strategy_serves_tenacity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda low, _high: low)
    slept: list[float] = []
    answers: Iterator[OSError | str] = iter([OSError(), OSError(), "done"])

    async def call() -> str:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    assert await AsyncRetrying(wait=DEFAULT_WAIT, sleep=sleep)(call) == "done"
    assert slept == [0.05, 0.1]


async def test_a_loop_may_retry_at_once() -> None:
    backoff = Backoff(wait_none())
    async with asyncio.timeout(1.0):
        for _ in range(100):
            await backoff.sleep()
