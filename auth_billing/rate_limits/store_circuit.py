"""Circuit breaker of the rate-limit store: after a time-out, calls fail at once for a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from auth_billing.errors import StoreUnavailable

OPEN_PERIOD = 1.0


class StoreCircuit:
    """Circuit breaker for calls to the rate-limit store. `now` is the given monotonic clock, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.now = clock
        self._open_until = -1.0

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Return a context manager for one call to the rate-limit store; it fails at once if another just timed out.

        Raises:
            StoreUnavailable: this call timed out, or an earlier one did within the last second.
        """
        if self.now() < self._open_until:
            raise StoreUnavailable("the store timed out within the last second")
        try:
            yield
        except StoreUnavailable:
            self._open_until = self.now() + OPEN_PERIOD
            raise
