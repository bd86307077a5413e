"""Counts the changes of an object in memory, so that tasks can wait for the next one."""

from __future__ import annotations

import asyncio


class Changes:
    """The number of changes of one object; any number of tasks of one event loop can wait for the next change."""

    def __init__(self) -> None:
        self.version = 0
        """Number of changes so far."""
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Count one change, and wake all tasks that wait in `wait`."""
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, version: int, seconds: float) -> None:
        """Wait at most `seconds` for a change after the first `version` changes; return in both cases."""
        if self.version != version:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
