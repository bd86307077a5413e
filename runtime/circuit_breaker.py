"""Circuit breaker: stops requests to a service that keeps failing, then lets one request through as a probe.

Not a library's, because those have no way to open the circuit for the time that a service sends as Retry-After.
"""

from __future__ import annotations

import time
from collections.abc import Callable

FAILURES = 5
"""Consecutive failures that open the circuit."""
REST_SECONDS = 15.0
"""Seconds for which an open circuit refuses requests."""
LONGEST_REST_SECONDS = 60.0
"""Maximum for `pause`, in seconds."""


class CircuitBreaker:
    """Circuit breaker of one service. After `enter` the caller must call `succeeded`, `failed` or `left`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, rest: float = REST_SECONDS) -> None:
        """`rest`: seconds for which an open circuit refuses requests."""
        self._clock = clock
        self._rest = rest
        self._failures = 0
        self._rests_until = float("-inf")
        self._probing = False

    @property
    def open(self) -> bool:
        """Whether requests must not be sent now."""
        return self.rest > 0

    @property
    def rest(self) -> float:
        """Seconds until a request may be sent, 0 if now; during a probe the full rest."""
        if self._probing:
            return self._rest
        return max(0.0, self._rests_until - self._clock())

    def enter(self) -> None:
        """Register a request; the first one after a rest is the probe, and blocks others until its outcome."""
        self._probing = self._failures >= FAILURES

    def succeeded(self) -> None:
        """Close the circuit: the request succeeded."""
        self._failures = 0
        self._probing = False

    def failed(self) -> None:
        """Count a failure of a request, and open the circuit after `FAILURES` in a row."""
        self._failures += 1
        self._probing = False
        if self._failures >= FAILURES:
            self._rests_until = self._clock() + self._rest

    def left(self) -> None:
        """End a request without an outcome: it was cancelled."""
        self._probing = False

    def pause(self, seconds: float) -> None:
        """Open the circuit for the time that the service requested (Retry-After)."""
        self._probing = False
        self._rests_until = self._clock() + min(max(seconds, 0.0), LONGEST_REST_SECONDS)
