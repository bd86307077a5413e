"""The price list in force, and how a new version of it comes to be.

Versions are only ever added. A gateway asks `current`, which is at most `GOOD_FOR` seconds behind the store, and goes
on with what it knows while the store is away (then nothing is held, so nothing is sold at an old price).
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

GOOD_FOR = 5.0
"""Seconds until the store is asked again."""
NOTHING = PriceList(0, {})
"""Before the first version: no model has a price."""


@dataclass(frozen=True)
class PriceVersion:
    """A price list and since when it is in force (Unix seconds)."""

    prices: PriceList
    at: float


class PriceStore(Protocol):
    """Where versions are: never changed once written. Every method may raise `StoreUnavailable`."""

    async def newest(self) -> PriceVersion | None:
        """The version in force."""
        ...

    async def add(self, version: PriceVersion) -> bool:
        """Store a version durably; false if there is one with its number."""
        ...


class PriceBook:
    """The prices of an installation.

    Args:
        store: where versions are.
        clock: Unix seconds, for what is written.
        monotonic: seconds, for how old what is known is.
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
        """The prices now; those of version 0 are none.

        Raises:
            StoreUnavailable: it does not answer, and never has.
        """
        if (fresh := self._fresh()) is not None:
            return fresh
        if self._reading.locked() and self._known is not None:
            return self._known  # somebody is asking already: nobody else waits for it
        async with self._reading:
            return self._fresh() or await self._read()

    async def load(self, file: PriceFile) -> PriceVersion:
        """Put the prices of a file in force: a new version, or the one there is if it says the same.

        Raises:
            StoreUnavailable: it may or may not have been stored; loading it again does no harm.
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
        return self._known if self._monotonic() - self._read_at < GOOD_FOR else None

    async def _read(self) -> PriceList:
        self._read_at = self._monotonic()
        try:
            newest = await self._store.newest()
        except StoreUnavailable:
            if self._known is None:
                raise
            return self._known
        prices = NOTHING if newest is None else newest.prices
        self._known = prices if newest is not None else None
        return prices
