"""Delays a worker's usage records by up to 50 ms, so that the broker syncs those of several jobs to disk at once."""

from __future__ import annotations

import asyncio

COMMIT_DELAY = 0.05
"""Seconds from the first waiting task until all continue."""


class GroupCommit:
    """Barrier that releases all waiting tasks together, `COMMIT_DELAY` after the first.

    Use it on the event loop only.
    """

    def __init__(self) -> None:
        self._released: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Wait before a publish, together with other tasks, until `COMMIT_DELAY` after the first or until `release`."""
        if self._released is None:
            loop = asyncio.get_running_loop()
            self._released = loop.create_future()
            loop.call_later(COMMIT_DELAY, self.release)
        await asyncio.shield(self._released)

    def release(self) -> None:
        """Release all tasks in `wait` now, before `COMMIT_DELAY` has passed."""
        if self._released is not None:
            released, self._released = self._released, None
            released.set_result(None)
