"""Connections on which nobody has shown a key: so many of one address, and no more.

Only those count that have been silent or refused for a while: many clients behind one address may connect at the same
moment, and each shows its key with its first request. Knows no HTTP; this gateway's connections only.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from itertools import islice

PATIENCE_SECONDS = 2.0
"""In which a client shows its key."""

Peer = tuple[str, int]
"""Address and port: a connection."""


class Strangers:
    """The connections without a key, by where they come from. `most`: of one address (of IPv6, one /64 network)."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._since: dict[str, dict[Peer, float]] = {}

    def __len__(self) -> int:
        return sum(len(peers) for peers in self._since.values())

    def arrives(self, peer: Peer) -> bool:
        """A connection is made; false if it is one too many."""
        now, peers = self._clock(), self._since.setdefault(_origin(peer[0]), {})
        if len(peers) >= self._most and next(islice(peers.values(), self._most - 1, None)) <= now - PATIENCE_SECONDS:
            return False
        peers[peer] = now
        return True

    def leaves(self, peer: Peer) -> None:
        """It is closed, or somebody is known on it now. Idempotent."""
        origin = _origin(peer[0])
        peers = self._since.get(origin, {})
        peers.pop(peer, None)
        if not peers:
            self._since.pop(origin, None)


def _origin(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
