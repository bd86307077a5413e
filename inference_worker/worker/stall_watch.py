"""Watchdog that kills a hung engine: one that has work but reports no step (a device deadlock, a stuck kernel).

A gateway can't tell a hung engine from a long prompt, because the worker's heartbeats continue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

LOOK_SECONDS = 1.0

_log = structlog.get_logger(__name__)


class StallWatch:
    """Watchdog of one engine: calls `end` after `limit` seconds in which a report was due and none arrived."""

    def __init__(self, limit: float, owes: Callable[[], bool], end: Callable[[], None]) -> None:
        self._limit = limit
        self._owes = owes
        self._end = end
        self._silent = 0.0

    def heard(self) -> None:
        """Reset the timeout: the engine has reported."""
        self._silent = 0.0

    async def run(self) -> None:
        """Check every `LOOK_SECONDS`, until cancelled.

        Counts checks instead of reading a clock, so that a pause of the worker itself is not blamed on the engine.
        """
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._silent = self._silent + LOOK_SECONDS if self._owes() else 0.0
            if self._silent >= self._limit:
                _log.error("engine hangs, killing it", seconds=self._silent)
                self._silent = 0.0
                self._end()
