"""Tokens per second of a consumer, for its heartbeat."""

from __future__ import annotations

import time

MIN_PERIOD = 0.5
"""Shortest period in seconds over which a rate is measured."""


class TokenRate:
    """Tokens per second of a consumer between two calls of `look`."""

    def __init__(self) -> None:
        self.per_second = 0.0
        self._since, self._tokens = time.monotonic(), 0

    def look(self, tokens: int) -> float:
        """Return tokens per second since an earlier call; `tokens` is the total number since the start."""
        now = time.monotonic()
        if now - self._since >= MIN_PERIOD:
            self.per_second = (tokens - self._tokens) / (now - self._since)
            self._since, self._tokens = now, tokens
        return self.per_second
