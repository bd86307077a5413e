"""Detects dead gateways at a worker: the broker returned a window, and after a grace period an empty one too.

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
from router.timings import Timings

_log = structlog.get_logger(__name__)


class GatewayLiveness:
    """Detects dead gateways by windows that the broker returns, and calls `on_dead`. Use on the event loop only."""

    def __init__(self, bus: Bus, worker: str, on_dead: Callable[[str], None], timings: Timings) -> None:
        self._bus = bus
        self._worker = worker
        self._on_dead = on_dead
        self._timings = timings
        self._unreachable: set[str] = set()
        self._probed: set[str] = set()

    def handle_returned_window(self, gateway: str) -> None:
        """Note that the broker returned a window to `gateway`, which has no inbox: probe the gateway later.

        If the window was the probe, call `on_dead`.
        """
        if gateway in self._probed:
            self._probed.discard(gateway)
            self._on_dead(gateway)
        elif gateway not in self._unreachable:
            timings = self._timings
            reconnecting = time.monotonic() - self._bus.lost_at < timings.reconnect_window
            grace = timings.gateway_grace_after_reconnect if reconnecting else timings.gateway_grace
            _log.info("gateway unreachable", gateway=gateway, grace=grace)
            self._unreachable.add(gateway)
            asyncio.get_running_loop().call_later(grace, self._probe, gateway)

    def _probe(self, gateway: str) -> None:
        """Send an empty window: if it is returned too, the gateway is dead."""
        self._unreachable.discard(gateway)
        self._probed.add(gateway)
        asyncio.get_running_loop().call_later(self._timings.gateway_probe_timeout, self._probed.discard, gateway)
        try:
            self._bus.send_window(gateway, Window(worker_id=self._worker, replies=[]))
        except BrokerUnavailable:
            _log.debug("gateway not probed, no connection to the broker", gateway=gateway)
