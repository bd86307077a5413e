"""Circuit breaker: stops requests to a failing service for 15 s or its Retry-After, then lets one probe through.

Not a library's, because those have no way to open the circuit for the time that a service sends as Retry-After.
"""

from __future__ import annotations

import time
from collections.abc import Callable

FAILURES = 5
"""Consecutive failures that open the circuit."""
OPEN_PERIOD = 15.0
"""Seconds for which an open circuit refuses requests."""
MAX_OPEN_PERIOD = 60.0
"""Maximum for `open_for`, in seconds."""


class CircuitBreaker:
    """Circuit breaker of one service.

    After `begin_request` the caller must call `record_success`, `record_failure` or `record_cancellation`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, open_seconds: float = OPEN_PERIOD) -> None:
        """`open_seconds`: seconds for which an open circuit refuses requests."""
        self._clock = clock
        self._open_seconds = open_seconds
        self._failures = 0
        self._open_until = float("-inf")
        self._probing = False

    @property
    def is_open(self) -> bool:
        """Whether callers must send no request now: failures or a Retry-After opened the circuit, or a probe runs."""
        return self.retry_after > 0

    @property
    def retry_after(self) -> float:
        """Seconds until a request may be sent to the service, 0 if now; during a probe the full open period."""
        if self._probing:
            return self._open_seconds
        return max(0.0, self._open_until - self._clock())

    def begin_request(self) -> None:
        """Note that the caller sends a request now.

        The first after an open period is the probe, which blocks others until it ends.
        """
        self._probing = self._failures >= FAILURES

    def record_success(self) -> None:
        """Note that a request succeeded: close the circuit, so that requests are sent, and forget failures."""
        self._failures = 0
        self._probing = False

    def record_failure(self) -> None:
        """Note that a request failed: open the circuit, so that requests stop, after `FAILURES` failures in a row."""
        self._failures += 1
        self._probing = False
        if self._failures >= FAILURES:
            self._open_until = self._clock() + self._open_seconds

    def record_cancellation(self) -> None:
        """Note that a request was cancelled: neither success nor failure; if it was the probe, the next request is."""
        self._probing = False

    def open_for(self, seconds: float) -> None:
        """Open the circuit for `seconds`, which the service requested by Retry-After, at most `MAX_OPEN_PERIOD`."""
        self._probing = False
        self._open_until = self._clock() + min(max(seconds, 0.0), MAX_OPEN_PERIOD)
