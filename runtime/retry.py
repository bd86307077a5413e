"""The retry policy of all processes: exponential backoff with jitter, built on tenacity's wait strategies.

`tenacity.AsyncRetrying(wait=DEFAULT_WAIT)` retries one call. `Backoff` serves loops that go on after a success, or that
do more between two tries than wait.
"""

from __future__ import annotations

import asyncio

from tenacity import AsyncRetrying, RetryCallState, wait_exponential, wait_random_exponential
from tenacity.wait import wait_base


def exponential_backoff(first: float, longest: float) -> wait_base:
    """Return a tenacity strategy: between half and all of `first` seconds, doubled with each failure up to `longest`.

    The jitter keeps processes that failed together from retrying together.
    """
    half = {"multiplier": first / 2, "max": longest / 2}
    return wait_exponential(**half) + wait_random_exponential(**half)


DEFAULT_WAIT = exponential_backoff(first=0.1, longest=10.0)
"""For operations that must eventually succeed, when the store or the broker is unavailable."""


def delay_after(failures: int, wait: wait_base) -> float:
    """Return the seconds that strategy `wait` prescribes after `failures` (1 or more) consecutive failures."""
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
        """Count a failure, and sleep for the delay before the next try."""
        self.failures += 1
        await asyncio.sleep(delay_after(self.failures, self._wait))

    def reset(self) -> None:
        """Record a success: the delay after the next failure is the first, shortest one."""
        self.failures = 0
