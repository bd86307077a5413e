"""Kills a worker's engine process if it hangs: it has work but reports no step (a device deadlock, a stuck kernel).

A gateway can't tell a hung engine from a long prompt, because the worker's heartbeats continue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

_log = structlog.get_logger(__name__)


class EngineWatchdog:
    """Watchdog of one engine process: calls `kill` after `timeout` seconds in which a report was due and none arrived.

    The watchdog checks every `interval` seconds.
    """

    def __init__(
        self, timeout: float, report_due: Callable[[], bool], kill: Callable[[], None], *, interval: float
    ) -> None:
        self._timeout = timeout
        self._interval = interval
        self._report_due = report_due
        self._kill = kill
        self._silence = 0.0

    def report_received(self) -> None:
        """Restart the timeout, because the engine reported a step. The worker calls this for each report."""
        self._silence = 0.0

    async def run(self) -> None:
        """Check periodically, until cancelled, whether the engine process hangs, and kill it if so.

        A background task of the worker. Counts checks instead of reading a clock, so that a pause of the worker itself
        is not blamed on the engine.
        """
        while True:
            await asyncio.sleep(self._interval)
            self._silence = self._silence + self._interval if self._report_due() else 0.0
            if self._silence >= self._timeout:
                _log.error("engine hangs, killing it", seconds=self._silence)
                self._silence = 0.0
                self._kill()
