"""Limits connections per client address that have not authenticated at the gateway within a grace period.

Younger connections do not count, because many clients behind one address may connect at the same moment, and each
authenticates with its first request.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from itertools import islice

GRACE_PERIOD = 2.0
"""Time in which a new connection should authenticate; younger connections do not count."""

Peer = tuple[str, int]
"""Client address and port, which identify a connection."""


class UnauthenticatedConnections:
    """Counts unauthenticated connections by client address or IPv6 /64 network, up to `limit` for each."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._since: dict[str, dict[Peer, float]] = {}

    def __len__(self) -> int:
        return sum(len(peers) for peers in self._since.values())

    def __contains__(self, peer: Peer) -> bool:
        return peer in self._since.get(_network(peer[0]), {})

    def add(self, peer: Peer) -> bool:
        """Count a new connection; return false, uncounted, if its address has `limit` older than the grace period."""
        now, peers = self._clock(), self._since.setdefault(_network(peer[0]), {})
        if len(peers) >= self._limit and next(islice(peers.values(), self._limit - 1, None)) <= now - GRACE_PERIOD:
            return False
        peers[peer] = now
        return True

    def discard(self, peer: Peer) -> None:
        """Stop counting a connection that was closed or that has authenticated. Idempotent."""
        network = _network(peer[0])
        peers = self._since.get(network, {})
        peers.pop(peer, None)
        if not peers:
            self._since.pop(network, None)


def _network(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
