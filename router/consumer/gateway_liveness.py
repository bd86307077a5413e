"""Gateway liveness, as a worker sees it: whether an unreachable gateway is dead or reconnecting.

A returned window can mean that the gateway died: its jobs are cancelled soon. After a restart of the broker it can
mean that the gateway has not reconnected yet: its jobs run on for a while, and lost replies are sent again on request.
See docs/design/reliability-contract.md#F7, F8, F17.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from router.bus import Bus
from router.errors import BrokerUnavailable
from router.messages import Window

GRACE_SECONDS = 1.0
"""Seconds from the first returned window to the probe."""
RECONNECT_GRACE_SECONDS = 10.0
"""The same if our own connection was lost in the last `RECONNECT_WINDOW_SECONDS`: all processes have to reconnect."""
RECONNECT_WINDOW_SECONDS = 15.0
PROBE_SECONDS = 1.0
"""Seconds within which the broker returns a probe if the gateway has no inbox."""

_log = structlog.get_logger(__name__)


class GatewayLiveness:
    """Detects dead gateways by returned windows. Use on the event loop only."""

    def __init__(self, bus: Bus, worker: str, on_dead: Callable[[str], None]) -> None:
        self._bus = bus
        self._worker = worker
        self._on_dead = on_dead
        self._unreachable: set[str] = set()
        self._probed: set[str] = set()

    def handle_returned_window(self, gateway: str) -> None:
        """Handle a returned window: schedule a probe, or report the gateway as dead if it was the probe."""
        if gateway in self._probed:
            self._probed.discard(gateway)
            self._on_dead(gateway)
        elif gateway not in self._unreachable:
            reconnecting = time.monotonic() - self._bus.lost_at < RECONNECT_WINDOW_SECONDS
            grace = RECONNECT_GRACE_SECONDS if reconnecting else GRACE_SECONDS
            _log.info("gateway unreachable", gateway=gateway, grace=grace)
            self._unreachable.add(gateway)
            asyncio.get_running_loop().call_later(grace, self._probe, gateway)

    def _probe(self, gateway: str) -> None:
        """Send an empty window: if it is returned too, the gateway is dead."""
        self._unreachable.discard(gateway)
        self._probed.add(gateway)
        asyncio.get_running_loop().call_later(PROBE_SECONDS, self._probed.discard, gateway)
        try:
            self._bus.send_window(gateway, Window(worker_id=self._worker, replies=[]))
        except BrokerUnavailable:
            _log.debug("gateway not probed, no connection to the broker", gateway=gateway)
