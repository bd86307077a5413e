"""Delays between retries of an operation that must eventually succeed: exponential, with jitter."""

from __future__ import annotations

import random
from collections.abc import Callable

FIRST_DELAY = 0.1
LONGEST_DELAY = 10.0

RetryDelay = Callable[[int], float]
"""Returns the seconds to wait after the n-th failed try (from 0)."""


def exponential_delay(tries: int) -> float:
    """Return between half and all of 0.1 s doubled with each try, at most 10 s."""
    longest = min(LONGEST_DELAY, FIRST_DELAY * float(1 << min(tries, 10)))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - nobody gains by guessing it
