"""How many tokens a second a consumer makes, for its heartbeat."""

from __future__ import annotations

import time

LEAST_SECONDS = 0.5
"""Shorter spans say nothing; the last rate stands."""


class TokenRate:
    """Tokens a second between two looks."""

    def __init__(self) -> None:
        self.per_second = 0.0
        self._since, self._tokens = time.monotonic(), 0

    def look(self, tokens: int) -> float:
        """The rate, given how many tokens there have been since the start."""
        now = time.monotonic()
        if now - self._since >= LEAST_SECONDS:
            self.per_second = (tokens - self._tokens) / (now - self._since)
            self._since, self._tokens = now, tokens
        return self.per_second
