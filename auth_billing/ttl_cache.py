"""Provides a bounded in-memory cache with a time to live, used for API keys, sessions, quotas and results of tools."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """A cache with a time to live of `seconds`; at `capacity` the oldest entry is evicted. Values are never `None`."""

    def __init__(self, seconds: float, capacity: int, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._capacity = capacity
        self._clock = clock
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the cached value of `key`, or `None` if the cache has none or it has expired."""
        until, value = self._entries.get(key, (0.0, None))
        if value is None or self._clock() >= until:
            self._entries.pop(key, None)
            return None
        return value

    def put(self, key: K, value: V) -> None:
        """Cache a value under `key` and restart its time to live; in a full cache the oldest entry is evicted."""
        self._entries[key] = (self._clock() + self._seconds, value)
        self._entries.move_to_end(key)
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def forget(self, key: K) -> None:
        """Remove the cached entry of `key`; no effect if there is none."""
        self._entries.pop(key, None)

    def replace(self, key: K, value: V) -> None:
        """Replace the cached value of `key`, which must be in the cache, without extending its time to live."""
        until, _ = self._entries[key]
        self._entries[key] = (until, value)

    def forget_all(self, predicate: Callable[[V], bool]) -> None:
        """Remove all cached entries whose value satisfies `predicate`."""
        for key in [key for key, (_, value) in self._entries.items() if predicate(value)]:
            del self._entries[key]
