"""Measures the tokens per second of a worker, which its heartbeats report."""

from __future__ import annotations

import time

MIN_PERIOD = 0.5
"""Shortest period in seconds over which a rate is measured."""


class TokenRate:
    """Rate of a worker's tokens per second between two calls of `update`."""

    def __init__(self) -> None:
        self.per_second = 0.0
        self._since, self._tokens = time.monotonic(), 0

    def update(self, tokens: int) -> float:
        """Record the worker's total `tokens` since its start.

        Return its tokens per second over the last `MIN_PERIOD` or longer.
        """
        now = time.monotonic()
        if now - self._since >= MIN_PERIOD:
            self.per_second = (tokens - self._tokens) / (now - self._since)
            self._since, self._tokens = now, tokens
        return self.per_second
