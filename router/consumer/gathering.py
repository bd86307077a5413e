"""Lets what is in no hurry wait for more of its kind, for a moment: a broker writes many messages to its disk in the
time of one, and wakes nobody for each. Knows nothing of what waits.
"""

from __future__ import annotations

import asyncio

SECONDS = 0.05
"""From the first that waits to the moment when all go on."""


class Gathering:
    """Where it waits. Use on the event loop only."""

    def __init__(self) -> None:
        self._moment: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Go on together with all who wait here."""
        if self._moment is None:
            loop = asyncio.get_running_loop()
            self._moment = loop.create_future()
            loop.call_later(SECONDS, self.end)
        await asyncio.shield(self._moment)

    def end(self) -> None:
        """Let all who wait go on now."""
        if self._moment is not None:
            moment, self._moment = self._moment, None
            moment.set_result(None)
