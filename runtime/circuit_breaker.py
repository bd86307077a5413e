"""Leaves a service alone for a while when it keeps failing, then lets one request find out whether it is back.

A few lines of our own: what the libraries have beside them (storage, decorators, listeners) is not needed, and theirs
do not know a service that itself says when to come back. Knows neither upstreams nor stores.
"""

from __future__ import annotations

import time
from collections.abc import Callable

FAILURES = 5
"""So many in a row open the circuit."""
REST_SECONDS = 15.0
LONGEST_REST_SECONDS = 60.0
"""A service that asks for more is tried again after this."""


class CircuitBreaker:
    """Of one service. Whoever calls `enter` calls one of `succeeded`, `failed` and `left` afterwards."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, rest: float = REST_SECONDS) -> None:
        """`rest`: seconds that it is left alone."""
        self._clock = clock
        self._rest = rest
        self._failures = 0
        self._rests_until = float("-inf")
        self._probing = False

    @property
    def open(self) -> bool:
        """Whether nobody should try now."""
        return self.rest > 0

    @property
    def rest(self) -> float:
        """Seconds until it is worth a try; while somebody is finding out, as long as that may take at most."""
        if self._probing:
            return self._rest
        return max(0.0, self._rests_until - self._clock())

    def enter(self) -> None:
        """A request goes out; after a rest it is the only one until it is known how it went."""
        self._probing = self._failures >= FAILURES

    def succeeded(self) -> None:
        """It answers."""
        self._failures = 0
        self._probing = False

    def failed(self) -> None:
        """It does not."""
        self._failures += 1
        self._probing = False
        if self._failures >= FAILURES:
            self._rests_until = self._clock() + self._rest

    def left(self) -> None:
        """Nothing was learnt: the request was cancelled."""
        self._probing = False

    def pause(self, seconds: float) -> None:
        """It asked for it."""
        self._probing = False
        self._rests_until = self._clock() + min(max(seconds, 0.0), LONGEST_REST_SECONDS)
