"""Tells every gateway that keys have changed, so that a revoked one is refused at once. Knows the bus, no store."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from router import control_plane
from router.bus import Bus
from router.errors import BrokerUnavailable
from router.messages import KeysChanged, KeySet

_log = structlog.get_logger(__name__)


def announcer(bus: Bus) -> Callable[[KeySet], None]:
    """What tells them. If the broker is away they find out by themselves, within seconds (`key_cache.py`)."""

    def announce(keys: KeySet) -> None:
        try:
            bus.send_control(control_plane.GATEWAYS, KeysChanged(keys=keys))
        except BrokerUnavailable:
            _log.warning("a change of keys was not announced: gateways find out within seconds")

    return announce


def nobody(_keys: KeySet) -> None:
    """For a process without a broker: gateways find out by themselves."""
