"""The price list in force, and the creation of new versions.

Versions are append-only. `current` is at most `CACHE_TTL` behind the store; while the store is away the known
version stays in use (no credit can be held then, so no job is sold at an old price).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from auth_billing.errors import StoreUnavailable
from auth_billing.prices.price_file import PriceFile
from auth_billing.prices.pricing import PriceList

CACHE_TTL = 5.0
"""Seconds until the store is read again."""
NO_PRICES = PriceList(0, {})
"""The price list before the first version: no model has a price."""


@dataclass(frozen=True)
class PriceVersion:
    """A price list and the time from which it is in force (Unix seconds)."""

    prices: PriceList
    at: float


class PriceStore(Protocol):
    """Store of price versions, which are immutable. Every method may raise `StoreUnavailable`."""

    async def newest(self) -> PriceVersion | None:
        """Return the price version with the highest number, which is in force; `None` if there is none."""
        ...

    async def add(self, version: PriceVersion) -> bool:
        """Store a price version durably; return false if its number is taken."""
        ...


class PriceBook:
    """Reads and changes the prices of an installation, with a cache of the version in force.

    Args:
        store: keeps the versions.
        clock: Unix seconds, for new versions.
        monotonic: seconds, for the age of the cached version.
    """

    def __init__(
        self,
        store: PriceStore,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._clock = clock
        self._monotonic = monotonic
        self._known: PriceList | None = None
        self._read_at = 0.0
        self._reading = asyncio.Lock()

    async def current(self) -> PriceList:
        """Return the price list in force, read from the store at most every `CACHE_TTL` seconds; version 0 is empty.

        Raises:
            StoreUnavailable: the store does not answer, and no version is known.
        """
        if (fresh := self._fresh()) is not None:
            return fresh
        if self._reading.locked() and self._known is not None:
            return self._known  # another request is reading: do not wait for it
        async with self._reading:
            return self._fresh() or await self._read()

    async def load(self, file: PriceFile) -> PriceVersion:
        """Put the prices of a file in force: add a version, unless the current one has the same prices.

        Raises:
            StoreUnavailable: the version may or may not have been stored; loading again is safe.
        """
        while True:
            there = await self._store.newest()
            version = there.prices.version if there is not None else 0
            if there is not None and there.prices == file.price_list(version):
                return there
            new = PriceVersion(file.price_list(version + 1), self._clock())
            if await self._store.add(new):
                return new

    def _fresh(self) -> PriceList | None:
        return self._known if self._monotonic() - self._read_at < CACHE_TTL else None

    async def _read(self) -> PriceList:
        self._read_at = self._monotonic()
        try:
            newest = await self._store.newest()
        except StoreUnavailable:
            if self._known is None:
                raise
            return self._known
        prices = NO_PRICES if newest is None else newest.prices
        self._known = prices if newest is not None else None
        return prices
