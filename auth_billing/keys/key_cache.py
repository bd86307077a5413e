"""Caches which API keys were valid or invalid, so that not every request reads the store.

Entries are found by key id *and* full digest: a wrong secret can neither use nor replace the entry of the right one. A
valid entry is confirmed with the store every few seconds, and used unconfirmed only while the store is away. The caller
checks whether a cached key has expired since.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from auth_billing.keys.key_records import ApiKeyRecord
from auth_billing.ttl_cache import TtlCache
from router.messages import KeySet

CONFIRMED_SECONDS = 4.0
"""Seconds between confirmations: the longest that a revoked key stays valid if the invalidation is lost."""
VALID_SECONDS = 30.0
"""Seconds that a valid key stays cached while the store is away."""
RETRY_SECONDS = 2.0
"""Seconds until a failed confirmation of a key is retried."""
INVALID_SECONDS = 5.0
"""Seconds that an invalid key stays cached."""
CAPACITY = 10_000
"""Largest number of valid keys in the cache, and of invalid ones."""

Identity = tuple[str, bytes]
"""Key id and digest of the key's secret."""


@dataclass(frozen=True)
class CachedKey:
    """A key that was valid. After `confirmed_until` it must be confirmed, if the store is available."""

    record: ApiKeyRecord
    confirmed_until: float


class KeyCache:
    """Valid and invalid keys, with separate capacities: a flood of invalid ones evicts no valid one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, capacity: int = CAPACITY) -> None:
        self._clock = clock
        self._valid: TtlCache[Identity, CachedKey] = TtlCache(VALID_SECONDS, capacity, clock)
        self._invalid: TtlCache[Identity, bool] = TtlCache(INVALID_SECONDS, capacity, clock)
        self.generation = 0
        """Number of invalidations. A record read from the store before the last one may be stale."""

    def valid(self, identity: Identity) -> CachedKey | None:
        """Return a key that was valid within the last `VALID_SECONDS` seconds."""
        return self._valid.get(identity)

    def is_confirmed(self, cached: CachedKey) -> bool:
        """Whether the store confirmed it within the last `CONFIRMED_SECONDS` seconds."""
        return self._clock() < cached.confirmed_until

    def is_invalid(self, identity: Identity) -> bool:
        """Whether the key was invalid within the last `INVALID_SECONDS` seconds."""
        return self._invalid.get(identity) is not None

    def put_valid(self, identity: Identity, record: ApiKeyRecord, generation: int) -> None:
        """Cache a key that the store confirmed, unless invalidated since `generation` (taken before the lookup)."""
        if generation == self.generation:
            self._valid.put(identity, CachedKey(record, self._clock() + CONFIRMED_SECONDS))

    def put_invalid(self, identity: Identity) -> None:
        """Store a key that the store denied."""
        self._valid.forget(identity)
        self._invalid.put(identity, True)

    def postpone_confirmation(self, identity: Identity) -> None:
        """Keep using a cached key for `RETRY_SECONDS` seconds, since the store does not answer."""
        if (cached := self._valid.get(identity)) is not None:
            later = replace(cached, confirmed_until=self._clock() + RETRY_SECONDS)
            self._valid.replace(identity, later)

    def invalidate(self, keys: KeySet) -> None:
        """Invalidate the entries of changed keys."""
        self.generation += 1
        self._valid.forget_all(lambda cached: cached.record.is_in(keys))
