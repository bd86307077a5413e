"""Whether this gateway can take anything on at all: its broker, its own event loop, what it has not got rid of.

All of it is local flags, so a refusal costs nothing and asks nobody
(docs/design/queue-topology.md#back-pressure). Does not know requests or models.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

import structlog

from gateway.errors import BrokerDown, Overloaded
from router.bus import Bus
from router.transport.base import ConnectionState

PROBE_SECONDS = 0.1
PROBES = 10
"""That are late in a row before the gateway counts as too busy: a pause of collection or a neighbour's burst is not."""
BLOCKED_RETRY_SECONDS = 10.0
"""An alarm of the broker's memory or disk does not pass in a moment."""
BUSY_RETRY_SECONDS = 2.0
MOST_UNCONFIRMED = 500
"""Publishes without the broker's word."""

_log = structlog.get_logger(__name__)


class SelfProtection:
    """One per gateway process; `run` it while it serves."""

    def __init__(self, bus: Bus, *, max_loop_lag: float) -> None:
        """`max_loop_lag`: seconds that the event loop may be late without a break."""
        self._bus = bus
        self._max_loop_lag = max_loop_lag
        self._lags: deque[float] = deque([0.0], maxlen=PROBES)
        self._was_late = False

    def check(self) -> None:
        """Nothing, if requests may be taken on.

        Raises:
            BrokerDown: there is no broker.
            Overloaded: the broker takes nothing, or this process can't keep up.
        """
        if self._bus.state is ConnectionState.DOWN:
            raise BrokerDown
        if self._bus.state is ConnectionState.BLOCKED:
            raise Overloaded("broker_blocked", BLOCKED_RETRY_SECONDS)
        if self._bus.unconfirmed > MOST_UNCONFIRMED:
            raise Overloaded("unconfirmed_publishes", BUSY_RETRY_SECONDS)
        if self._is_late:
            raise Overloaded("loop_lag", BUSY_RETRY_SECONDS)

    async def run(self) -> None:
        """Measure how late the event loop is, for ever."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(PROBE_SECONDS)
            self._lags.append(time.monotonic() - began - PROBE_SECONDS)
            if self._is_late is not self._was_late:
                self._was_late = self._is_late
                _log.warning("event loop is late" if self._was_late else "event loop is on time again")

    @property
    def _is_late(self) -> bool:
        return len(self._lags) == PROBES and min(self._lags) > self._max_loop_lag
