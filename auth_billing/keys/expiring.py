"""Values that are remembered for some seconds, and so many of them at most."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Expiring(Generic[K, V]):
    """Values that last `seconds`; at `capacity` the oldest goes. No value is `None`."""

    def __init__(self, seconds: float, capacity: int, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._capacity = capacity
        self._clock = clock
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """What was put less than `seconds` ago."""
        until, value = self._entries.get(key, (0.0, None))
        if value is None or self._clock() >= until:
            self._entries.pop(key, None)
            return None
        return value

    def put(self, key: K, value: V) -> None:
        """Remember it from now on."""
        self._entries[key] = (self._clock() + self._seconds, value)
        self._entries.move_to_end(key)
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def forget(self, key: K) -> None:
        """Do not remember it any longer."""
        self._entries.pop(key, None)
