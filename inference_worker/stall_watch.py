"""Ends an engine that hangs: it has work, lives, and reports no step (a deadlock on the device, a stuck kernel).

A gateway can't tell that from a long prompt, because the worker answers for it. Does not know jobs, nor what becomes of
them when the engine has gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

LOOK_SECONDS = 1.0

_log = structlog.get_logger(__name__)


class StallWatch:
    """Calls `end` when nothing was heard for `limit` seconds in which the engine owed a report."""

    def __init__(self, limit: float, owes: Callable[[], bool], end: Callable[[], None]) -> None:
        self._limit = limit
        self._owes = owes
        self._end = end
        self._silent = 0.0

    def heard(self) -> None:
        """The engine has reported."""
        self._silent = 0.0

    async def run(self) -> None:
        """Look every `LOOK_SECONDS`, for ever.

        Silence is counted in looks, not by a clock: a worker that stood still itself has not listened meanwhile.
        """
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._silent = self._silent + LOOK_SECONDS if self._owes() else 0.0
            if self._silent >= self._limit:
                _log.error("engine hangs, it is ended", seconds=self._silent)
                self._silent = 0.0
                self._end()
