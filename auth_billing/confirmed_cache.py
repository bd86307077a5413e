"""Caches settings that requests need: read again every few seconds, and kept longer while the store is unavailable.

A setting in use is read again before it expires, in the background (`early_reads.py`).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from auth_billing.early_reads import EarlyReads, is_due
from auth_billing.errors import StoreUnavailable
from auth_billing.ttl_cache import TtlCache

CONFIRMED_TTL = 4.0
"""Most seconds between reads of a cached setting in use (`early_reads.py`)."""
STALE_TTL = 300.0
"""Seconds for which a cached setting applies while the store is unavailable."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True)
class _Confirmed(Generic[V]):
    value: V
    until: float


class ConfirmedCache(Generic[K, V]):
    """A cache of up to `capacity` settings, each read from the store again at most `CONFIRMED_TTL` seconds later."""

    def __init__(self, capacity: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._cache: TtlCache[K, _Confirmed[V]] = TtlCache(STALE_TTL, capacity, clock)
        self._early: EarlyReads[K] = EarlyReads()

    async def read(self, key: K, find: Callable[[], Awaitable[V]]) -> V:
        """Return the setting of `key`, which `find` reads from the store.

        Raises:
            StoreUnavailable: the setting is not cached and the store does not answer.
        """
        cached = self._cache.get(key)
        if cached is not None and (left := cached.until - self._clock()) > 0:
            if is_due(left, CONFIRMED_TTL):
                self._early.start(key, lambda: self._find(key, find))
            return cached.value
        self._early.cancel(key)  # it may end after this read, with an older value
        try:
            return await self._find(key, find)
        except StoreUnavailable:
            if cached is None:
                raise
            self._cache.replace(key, _Confirmed(cached.value, self._clock() + CONFIRMED_TTL))
            return cached.value

    def forget(self, key: K) -> None:
        """Remove the cached setting of `key`, which has been changed."""
        self._early.cancel(key)
        self._cache.forget(key)

    async def _find(self, key: K, find: Callable[[], Awaitable[V]]) -> V:
        value = await find()
        self._cache.put(key, _Confirmed(value, self._clock() + CONFIRMED_TTL))
        return value
