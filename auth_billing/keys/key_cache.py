"""Remembers for some seconds which keys were good and which were not, so that not every request asks the store.

An entry is found by key id *and* full digest, never by a part of a key: a wrong secret can neither use nor replace
the entry of the right one. A good key is to be confirmed every few seconds; only while the store is away it is good
for longer. Does not know whether a remembered key has expired since: the caller looks.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from auth_billing.records import ApiKeyRecord
from router.messages import KeySet

CONFIRMED_FOR = 4.0
"""Seconds until the store is asked again: the longest that a revoked key goes on, if nobody announces it."""
GOOD_FOR = 30.0
"""Seconds that a good key is remembered while the store is away."""
RETRY_AFTER = 2.0
"""Seconds until a store that did not answer is asked about the same key again."""
BAD_FOR = 5.0
CAPACITY = 10_000

Identity = tuple[str, bytes]
V = TypeVar("V")


@dataclass(frozen=True)
class Remembered:
    """A key that was good. Past `confirmed_until` it counts only if the store can't be asked."""

    record: ApiKeyRecord
    confirmed_until: float


class KeyCache:
    """Good and bad keys, each with a bound: a flood of bad ones pushes no good one out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, capacity: int = CAPACITY) -> None:
        self._clock = clock
        self._good: _Expiring[Remembered] = _Expiring(GOOD_FOR, capacity, clock)
        self._bad: _Expiring[bool] = _Expiring(BAD_FOR, capacity, clock)
        self.generation = 0
        """Rises with each `forget`. What was read from the store before the last one may be out of date."""

    def good(self, identity: Identity) -> Remembered | None:
        """A key that was good within `GOOD_FOR` seconds."""
        return self._good.get(identity)

    def is_confirmed(self, remembered: Remembered) -> bool:
        """Whether the store has confirmed it within `CONFIRMED_FOR` seconds."""
        return self._clock() < remembered.confirmed_until

    def is_bad(self, identity: Identity) -> bool:
        """Whether the key was bad within `BAD_FOR` seconds."""
        return self._bad.get(identity) is not None

    def remember_good(self, identity: Identity, record: ApiKeyRecord, generation: int) -> None:
        """The store has confirmed it; `generation` is of before it was asked. An answer overtaken by news is let go."""
        if generation == self.generation:
            self._good.put(identity, Remembered(record, self._clock() + CONFIRMED_FOR))

    def remember_bad(self, identity: Identity) -> None:
        """The store has just denied it."""
        self._good.drop(identity)
        self._bad.put(identity, True)

    def put_off(self, identity: Identity) -> None:
        """The store does not answer: take a remembered key for good, for now."""
        if (remembered := self._good.get(identity)) is not None:
            later = replace(remembered, confirmed_until=self._clock() + RETRY_AFTER)
            self._good.replace(identity, later)

    def forget(self, keys: KeySet) -> None:
        """These have changed: the store is to be asked again."""
        self.generation += 1
        self._good.drop_all(lambda remembered: remembered.record.is_in(keys))


class _Expiring(Generic[V]):
    """Values that last `seconds`; at `capacity` the oldest goes."""

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
        """Another value for an entry, which lasts no longer for it."""
        until, _ = self._entries[identity]
        self._entries[identity] = (until, value)

    def drop(self, identity: Identity) -> None:
        self._entries.pop(identity, None)

    def drop_all(self, these: Callable[[V], bool]) -> None:
        for identity in [identity for identity, (_, value) in self._entries.items() if these(value)]:
            del self._entries[identity]
