"""Refuses requests while this gateway process is overloaded: broker connection, unconfirmed publishes, event loop lag.

All checks read local state, so a refusal costs nothing and calls no other process
(docs/design/queue-topology.md#back-pressure).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

import structlog

from gateway.errors import BrokerDown, Overloaded
from router.bus import Bus
from router.transport.base import ConnectionState

PROBE_INTERVAL = 0.1
"""Seconds between two probes of the event loop."""
PROBES = 10
"""Number of consecutive late probes that count as overload; a garbage collection or a short burst must not."""
BLOCKED_RETRY_AFTER = 10.0
"""`Retry-After` in seconds while the broker blocks publishing: a memory or disk alarm lasts for some time."""
BUSY_RETRY_AFTER = 2.0
"""`Retry-After` in seconds while the event loop lags or too many publishes are unconfirmed."""
MAX_UNCONFIRMED = 2000
"""Maximum number of publishes without the broker's confirm: a key's default limit of requests that begin at once."""

_log = structlog.get_logger(__name__)


class SelfProtection:
    """Overload checks of one gateway process: broker and event loop lag. `run` must run while requests are served."""

    def __init__(self, bus: Bus, *, max_loop_lag: float) -> None:
        """`max_loop_lag`: sustained event loop lag in seconds that is tolerated."""
        self._bus = bus
        self._max_loop_lag = max_loop_lag
        self._lags: deque[float] = deque([0.0], maxlen=PROBES)
        self._was_late = False

    def check(self) -> None:
        """Check at the start of a request that this gateway can take requests; otherwise raise.

        Raises:
            BrokerDown: The connection to the broker is down.
            Overloaded: The broker blocks publishing, or this process is overloaded.
        """
        if self._bus.state is ConnectionState.DOWN:
            raise BrokerDown
        if self._bus.state is ConnectionState.BLOCKED:
            raise Overloaded("broker_blocked", BLOCKED_RETRY_AFTER)
        if self._bus.unconfirmed > MAX_UNCONFIRMED:
            raise Overloaded("unconfirmed_publishes", BUSY_RETRY_AFTER)
        if self._is_late:
            raise Overloaded("loop_lag", BUSY_RETRY_AFTER)

    async def run(self) -> None:
        """Measure the event loop's lag at intervals until cancelled; `check` compares the lag with its limit."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(PROBE_INTERVAL)
            self._lags.append(time.monotonic() - began - PROBE_INTERVAL)
            if self._is_late is not self._was_late:
                self._was_late = self._is_late
                _log.warning("event loop is late" if self._was_late else "event loop is on time again")

    @property
    def _is_late(self) -> bool:
        return len(self._lags) == PROBES and min(self._lags) > self._max_loop_lag
