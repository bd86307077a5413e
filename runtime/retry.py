"""Retry policy of all processes: computes waits between retries, by exponential backoff with jitter (tenacity).

`tenacity.AsyncRetrying(wait=DEFAULT_WAIT)` retries one call. `Backoff` serves loops that go on after a success, or that
do more between two tries than wait.
"""

from __future__ import annotations

import asyncio

from tenacity import AsyncRetrying, RetryCallState, wait_exponential, wait_random_exponential
from tenacity.wait import wait_base


def exponential_backoff(first: float, longest: float) -> wait_base:
    """Return a tenacity wait strategy: half to all of `first` seconds, doubled with each failure up to `longest`.

    The jitter keeps processes that failed together from retrying together.
    """
    half = {"multiplier": first / 2, "max": longest / 2}
    return wait_exponential(**half) + wait_random_exponential(**half)


DEFAULT_WAIT = exponential_backoff(first=0.1, longest=10.0)
"""For operations that must eventually succeed, when the store or the broker is unavailable."""


def delay_after(failures: int, wait: wait_base) -> float:
    """Return the seconds to wait before the next try after `failures` (1 or more) in a row, by the strategy `wait`."""
    state = RetryCallState(AsyncRetrying(), None, (), {})
    state.attempt_number = failures
    return wait(state)


class Backoff:
    """Retry delays of one loop: each failure lengthens the next delay as strategy `wait` says, a success resets it."""

    def __init__(self, wait: wait_base = DEFAULT_WAIT) -> None:
        self._wait = wait
        self.failures = 0
        """Number of consecutive failures."""

    async def sleep(self) -> None:
        """Count a failure of the loop, and sleep before its next try, longer after each failure in a row."""
        self.failures += 1
        await asyncio.sleep(delay_after(self.failures, self._wait))

    def reset(self) -> None:
        """Note that the loop's work succeeded: the delay after its next failure is the first, shortest one."""
        self.failures = 0
