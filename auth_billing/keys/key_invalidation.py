"""Publishes over the broker which API keys changed, so that gateways drop cached keys and refuse revoked ones."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from router import control_targets
from router.bus import Bus
from router.errors import BrokerUnavailable
from router.messages import KeysChanged, KeySet

_log = structlog.get_logger(__name__)


def invalidation_publisher(bus: Bus) -> Callable[[KeySet], None]:
    """Return a function that publishes to all gateways which API keys changed, so that they drop cached ones.

    The returned function never raises: without a broker, gateways notice the change within seconds (`key_cache.py`).
    """

    def announce(keys: KeySet) -> None:
        try:
            bus.send_control(control_targets.GATEWAYS, KeysChanged(keys=keys))
        except BrokerUnavailable:
            _log.warning("key change not published: gateways notice within seconds")

    return announce


def no_invalidation(_keys: KeySet) -> None:
    """Do nothing: the publisher for processes without a broker; gateways notice changed keys within seconds."""
