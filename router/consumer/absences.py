"""Whether a gateway that does not hear has gone, or is coming back (docs/design/reliability-contract.md#F7, F8, F17).

A window that nobody took may mean that the gateway died: its jobs are stopped soon. After a restart of the broker it
may mean that the gateway is not back yet: its jobs go on for a while, and what it missed is said again when it asks.
Knows no jobs.
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
"""After the first window that came back."""
BROKER_GRACE_SECONDS = 10.0
"""The same when our own connection was lost in the last `BROKER_TROUBLE_SECONDS`: everybody has to come back."""
BROKER_TROUBLE_SECONDS = 15.0
PROBE_SECONDS = 1.0
"""In which the last try comes back if nobody is there."""

_log = structlog.get_logger(__name__)


class Absences:
    """Of gateways, as one worker sees them. Use on the event loop only."""

    def __init__(self, bus: Bus, worker: str, on_gone: Callable[[str], None]) -> None:
        self._bus = bus
        self._worker = worker
        self._on_gone = on_gone
        self._away: set[str] = set()
        self._probed: set[str] = set()

    def returned(self, gateway: str) -> None:
        """A window came back."""
        if gateway in self._probed:
            self._probed.discard(gateway)
            self._on_gone(gateway)
        elif gateway not in self._away:
            trouble = time.monotonic() - self._bus.lost_at < BROKER_TROUBLE_SECONDS
            grace = BROKER_GRACE_SECONDS if trouble else GRACE_SECONDS
            _log.info("gateway does not hear", gateway=gateway, grace=grace)
            self._away.add(gateway)
            asyncio.get_running_loop().call_later(grace, self._probe, gateway)

    def _probe(self, gateway: str) -> None:
        """Try again: it is back, or it has gone."""
        self._away.discard(gateway)
        self._probed.add(gateway)
        asyncio.get_running_loop().call_later(PROBE_SECONDS, self._probed.discard, gateway)
        try:
            self._bus.send_window(gateway, Window(w=self._worker, b=[]))
        except BrokerUnavailable:
            _log.debug("gateway not sought, the broker is away", gateway=gateway)
