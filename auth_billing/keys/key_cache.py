"""Caches which API keys were valid or invalid, so that not every request reads the store.

Entries are found by key id *and* full digest: a wrong secret can neither use nor replace the entry of the right one. A
valid entry is confirmed with the store every few seconds, and used unconfirmed only while the store is away. The caller
checks whether a cached key has expired since.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from auth_billing.keys.key_records import ApiKeyRecord
from router.messages import KeySet

CONFIRMED_FOR = 4.0
"""Seconds between confirmations: the longest that a revoked key stays valid if the invalidation is lost."""
GOOD_FOR = 30.0
"""Seconds that a valid key stays cached while the store is away."""
RETRY_AFTER = 2.0
"""Seconds until a failed confirmation of a key is retried."""
BAD_FOR = 5.0
CAPACITY = 10_000

Identity = tuple[str, bytes]
V = TypeVar("V")


@dataclass(frozen=True)
class Remembered:
    """A key that was valid. After `confirmed_until` it must be confirmed, if the store is available."""

    record: ApiKeyRecord
    confirmed_until: float


class KeyCache:
    """Valid and invalid keys, with separate capacities: a flood of invalid ones evicts no valid one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, capacity: int = CAPACITY) -> None:
        self._clock = clock
        self._good: _Expiring[Remembered] = _Expiring(GOOD_FOR, capacity, clock)
        self._bad: _Expiring[bool] = _Expiring(BAD_FOR, capacity, clock)
        self.generation = 0
        """Number of invalidations. A record read from the store before the last one may be stale."""

    def good(self, identity: Identity) -> Remembered | None:
        """Return a key that was valid within the last `GOOD_FOR` seconds."""
        return self._good.get(identity)

    def is_confirmed(self, remembered: Remembered) -> bool:
        """Whether the store confirmed it within the last `CONFIRMED_FOR` seconds."""
        return self._clock() < remembered.confirmed_until

    def is_bad(self, identity: Identity) -> bool:
        """Whether the key was invalid within the last `BAD_FOR` seconds."""
        return self._bad.get(identity) is not None

    def remember_good(self, identity: Identity, record: ApiKeyRecord, generation: int) -> None:
        """Cache a key that the store confirmed, unless invalidated since `generation` (taken before the lookup)."""
        if generation == self.generation:
            self._good.put(identity, Remembered(record, self._clock() + CONFIRMED_FOR))

    def remember_bad(self, identity: Identity) -> None:
        """Store a key that the store denied."""
        self._good.drop(identity)
        self._bad.put(identity, True)

    def put_off(self, identity: Identity) -> None:
        """Keep using a cached key for `RETRY_AFTER` seconds, since the store does not answer."""
        if (remembered := self._good.get(identity)) is not None:
            later = replace(remembered, confirmed_until=self._clock() + RETRY_AFTER)
            self._good.replace(identity, later)

    def forget(self, keys: KeySet) -> None:
        """Invalidate the entries of changed keys."""
        self.generation += 1
        self._good.drop_all(lambda remembered: remembered.record.is_in(keys))


class _Expiring(Generic[V]):
    """Cache with a time to live of `seconds`; at `capacity` the oldest entry is evicted."""

    def __init__(self, seconds: float, capacity: int, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._capacity = capacity
        self._clock = clock
        self._entries: OrderedDict[Identity, tuple[float, V]] = OrderedDict()

    def get(self, identity: Identity) -> V | None:
        until, value = self._entries.get(identity, (0.0, None))
        if value is None or self._clock() >= until:
            self._entries.pop(identity, None)
            return None
        return value

    def put(self, identity: Identity, value: V) -> None:
        self._entries[identity] = (self._clock() + self._seconds, value)
        self._entries.move_to_end(identity)
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def replace(self, identity: Identity, value: V) -> None:
        """Replace an entry's value without extending its time to live."""
        until, _ = self._entries[identity]
        self._entries[identity] = (until, value)

    def drop(self, identity: Identity) -> None:
        self._entries.pop(identity, None)

    def drop_all(self, these: Callable[[V], bool]) -> None:
        for identity in [identity for identity, (_, value) in self._entries.items() if these(value)]:
            del self._entries[identity]
