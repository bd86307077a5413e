"""Group commit: delays publishes that are not urgent, so that the broker syncs many of them to disk at once."""

from __future__ import annotations

import asyncio

SECONDS = 0.05
"""Seconds from the first waiting task until all continue."""


class Gathering:
    """Barrier that releases all waiting tasks together after `SECONDS`. Use on the event loop only."""

    def __init__(self) -> None:
        self._moment: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Wait for the common release."""
        if self._moment is None:
            loop = asyncio.get_running_loop()
            self._moment = loop.create_future()
            loop.call_later(SECONDS, self.end)
        await asyncio.shield(self._moment)

    def end(self) -> None:
        """Release all waiting tasks now."""
        if self._moment is not None:
            moment, self._moment = self._moment, None
            moment.set_result(None)
