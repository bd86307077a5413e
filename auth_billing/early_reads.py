"""Reads cached settings again shortly before they expire, in the background, so that no request waits for the store.

A setting that is used in the last quarter of its time to live is read then. Its time to live does not change: if the
early read has not ended when it expires, the next use waits for a read of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Generic, TypeVar

from auth_billing.errors import StoreUnavailable

EARLY_SHARE = 0.25
"""Fraction of a setting's time to live, at its end, in which a use starts an early read."""

K = TypeVar("K", bound=Hashable)


def is_due(left: float, ttl: float) -> bool:
    """Return whether a setting with `left` of its `ttl` seconds left should be read again now."""
    return left <= EARLY_SHARE * ttl


class EarlyReads(Generic[K]):
    """The early reads that run, at most one for each key. Use it on the event loop only."""

    def __init__(self) -> None:
        self._running: dict[K, asyncio.Task[None]] = {}

    def start(self, key: K, read: Callable[[], Awaitable[object]]) -> None:
        """Start `read`, which caches what it finds under `key`, unless an early read for `key` runs; does not wait.

        That the store is unavailable is ignored: the cached setting stays until it expires.
        """
        if key not in self._running:
            task = self._running[key] = asyncio.create_task(_read(read))
            task.add_done_callback(lambda _: self._running.pop(key, None))

    def cancel(self, key: K) -> None:
        """Cancel the early read for `key`, if one runs: what it finds may be from before a change."""
        if (task := self._running.get(key)) is not None:
            task.cancel()


async def _read(read: Callable[[], Awaitable[object]]) -> None:
    with suppress(StoreUnavailable):
        await read()
