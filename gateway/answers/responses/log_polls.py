"""Paces the reads of logs that other processes write, so that many readers do not overload the store."""

from __future__ import annotations

import asyncio

POLL_INTERVAL = 0.25
"""Seconds between two reads of one log, at least."""
MAX_POLLS = 40.0
"""Reads of logs per second in one process, at most."""


class LogPolls:
    """The readers of one process that wait until they read the log of a response again."""

    def __init__(self) -> None:
        self._waiting = 0

    async def wait(self) -> None:
        """Wait until the next read of a log: longer the more readers wait."""
        self._waiting += 1
        try:
            await asyncio.sleep(max(POLL_INTERVAL, self._waiting / MAX_POLLS))
        finally:
            self._waiting -= 1
