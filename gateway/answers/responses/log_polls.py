"""Paces the reads of logs that other processes write, so that many readers do not overload the store.

Organisations share the reads of a process equally: many readers of one do not slow those of others."""

from __future__ import annotations

import asyncio
from collections import Counter

POLL_INTERVAL = 0.25
"""Seconds between two reads of one log, at least."""
MAX_POLLS = 40.0
"""Reads of logs per second in one process, at most."""


class LogPolls:
    """The readers of one process that wait until they read the log of a response again."""

    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()
        """Number of waiting readers by organisation."""

    async def wait(self, organisation: str) -> None:
        """Wait until the next read of a log: longer the more readers of the organisation wait."""
        self._waiting[organisation] += 1
        try:
            seconds = self._waiting[organisation] * len(self._waiting) / MAX_POLLS
            await asyncio.sleep(max(POLL_INTERVAL, seconds))
        finally:
            self._waiting[organisation] -= 1
            if not self._waiting[organisation]:
                del self._waiting[organisation]
