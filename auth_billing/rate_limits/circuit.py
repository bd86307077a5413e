"""Remembers for a moment that the store did not answer, so that not every request waits for it in vain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from auth_billing.errors import StoreUnavailable

OPEN_SECONDS = 1.0


class Circuit:
    """Between those who ask a store and the store. `clock`, and `now` after it: seconds that never go back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.now = clock
        self._open_until = -1.0

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Ask inside.

        Raises:
            StoreUnavailable: it does not answer, or did not a moment ago.
        """
        if self.now() < self._open_until:
            raise StoreUnavailable("the store did not answer a moment ago")
        try:
            yield
        except StoreUnavailable:
            self._open_until = self.now() + OPEN_SECONDS
            raise
