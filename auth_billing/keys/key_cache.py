"""Caches in a gateway which API keys were valid or invalid, so that not every request reads the store.

Entries are found by key id *and* full digest: a wrong secret can neither use nor replace the entry of the right one. A
valid entry is confirmed with the store every few seconds, and used unconfirmed only while the store is away. The caller
checks whether a cached key has expired since.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from auth_billing.access.model_access import ModelAccess
from auth_billing.early_reads import is_due
from auth_billing.keys.key_records import ApiKeyRecord
from auth_billing.ttl_cache import TtlCache
from router.messages import KeySet

CONFIRMED_TTL = 4.0
"""Seconds between confirmations: the longest that a revoked key stays valid, or a changed model policy without effect,
if the invalidation is lost."""
VALID_TTL = 30.0
"""Seconds that a valid key stays cached while the store is away."""
RETRY_DELAY = 2.0
"""Seconds until a failed confirmation of a key is retried."""
INVALID_TTL = 5.0
"""Seconds that an invalid key stays cached."""
CAPACITY = 10_000
"""Largest number of valid keys in the cache, and of invalid ones."""

Identity = tuple[str, bytes]
"""Key id and digest of the key's secret."""


@dataclass(frozen=True)
class CachedKey:
    """An API key that the store confirmed, with the models that it may use.

    After `confirmed_until` (monotonic seconds) the store is asked again.
    """

    record: ApiKeyRecord
    models: ModelAccess
    confirmed_until: float


class KeyCache:
    """One process's cache of valid and of invalid keys, with separate capacities: invalid keys evict no valid ones."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, capacity: int = CAPACITY) -> None:
        self._clock = clock
        self._valid: TtlCache[Identity, CachedKey] = TtlCache(VALID_TTL, capacity, clock)
        self._invalid: TtlCache[Identity, bool] = TtlCache(INVALID_TTL, capacity, clock)
        self.generation = 0
        """Number of invalidations. A record read from the store before the last one may be stale."""

    def valid(self, identity: Identity) -> CachedKey | None:
        """Return the cached API key of `identity` if the store confirmed it in the last `VALID_TTL` s, else `None`."""
        return self._valid.get(identity)

    def is_confirmed(self, cached: CachedKey) -> bool:
        """Return whether the store confirmed the cached API key within the last `CONFIRMED_TTL` seconds."""
        return self._clock() < cached.confirmed_until

    def is_due(self, cached: CachedKey) -> bool:
        """Return whether the cached API key has to be confirmed soon, so that an early read should start."""
        return is_due(cached.confirmed_until - self._clock(), CONFIRMED_TTL)

    def is_invalid(self, identity: Identity) -> bool:
        """Return whether the store denied the API key with this id and digest within the last `INVALID_TTL` seconds."""
        return self._invalid.get(identity) is not None

    def put_valid(self, identity: Identity, record: ApiKeyRecord, models: ModelAccess, generation: int) -> CachedKey:
        """Return a `CachedKey` of an API key that the store has just confirmed, and cache it.

        It is not cached if keys were invalidated since the caller's read of the store began. `generation`:
        `KeyCache.generation` as it was before that read.
        """
        key = CachedKey(record, models, self._clock() + CONFIRMED_TTL)
        if generation == self.generation:
            self._valid.put(identity, key)
        return key

    def put_invalid(self, identity: Identity) -> None:
        """Cache for `INVALID_TTL` seconds that the store denied this API key, and forget it as a valid key."""
        self._valid.forget(identity)
        self._invalid.put(identity, True)

    def postpone_confirmation(self, identity: Identity) -> None:
        """Treat a cached API key as confirmed for `RETRY_DELAY` more seconds, since the store does not answer."""
        if (cached := self._valid.get(identity)) is not None:
            later = replace(cached, confirmed_until=self._clock() + RETRY_DELAY)
            self._valid.replace(identity, later)

    def invalidate(self, keys: KeySet) -> None:
        """Remove the cached valid API keys that `keys` selects, after they were changed in the store."""
        self.generation += 1
        self._valid.forget_all(lambda cached: cached.record.is_in(keys))
