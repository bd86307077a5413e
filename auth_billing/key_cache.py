"""Remembers for some seconds which keys were good and which were not, so that not every request asks the store.

An entry is found by key id *and* full digest, never by a part of a key: a wrong secret can neither use nor replace
the entry of the right one. Does not know whether a remembered key has expired since: the caller looks.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from auth_billing.expiring import Expiring
from auth_billing.records import ApiKeyRecord

GOOD_FOR = 30.0
"""Seconds that a good key is remembered: the longest that a revoked one may go on, and a store may be away."""
BAD_FOR = 5.0
CAPACITY = 10_000

Identity = tuple[str, bytes]


class KeyCache:
    """Good and bad keys, each with a bound: a flood of bad ones pushes no good one out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, capacity: int = CAPACITY) -> None:
        self._good: Expiring[Identity, ApiKeyRecord] = Expiring(GOOD_FOR, capacity, clock)
        self._bad: Expiring[Identity, bool] = Expiring(BAD_FOR, capacity, clock)

    def good(self, identity: Identity) -> ApiKeyRecord | None:
        """The record of a key that was good within `GOOD_FOR` seconds."""
        return self._good.get(identity)

    def is_bad(self, identity: Identity) -> bool:
        """Whether the key was bad within `BAD_FOR` seconds."""
        return self._bad.get(identity) is not None

    def remember_good(self, identity: Identity, record: ApiKeyRecord) -> None:
        """The store has just confirmed it."""
        self._good.put(identity, record)

    def remember_bad(self, identity: Identity) -> None:
        """The store has just denied it."""
        self._bad.put(identity, True)
