"""Reads and changes the price list in force: caches the newest version in each process, and adds new versions.

The store has the prices. They are either loaded from the operator's files, and then only these change them, or edited
version by version, and then no file does (ADR 0058).

Versions are append-only. `current` is at most `CACHE_TTL` behind the store; while the store is away the known
version stays in use (no credit can be held then, so no job is sold at an old price).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from auth_billing.early_reads import EarlyReads, is_due
from auth_billing.errors import NoSuchRecord, PricesChanged, PricesInFile, StoreUnavailable, UnacceptableValue
from auth_billing.prices.price_file import PriceFile
from auth_billing.prices.pricing import PriceList, RateCard, check_rate
from router.messages import ServiceClass
from router.topology import check_model_name

CACHE_TTL = 5.0
"""Seconds until the store is read again."""
NO_PRICES = PriceList(0, {})
"""The price list before the first version: no model has a price."""
MAX_MODELS = 2_000
"""Most models with prices that are edited, so that a version fits into one document of the store."""


@dataclass(frozen=True)
class PriceVersion:
    """A price list and the time from which it is in force (Unix seconds)."""

    prices: PriceList
    at: float
    in_file: bool = False
    """Whether the operator's files have these prices, so that they can't be edited."""


class PriceStore(Protocol):
    """Store of price versions, which are immutable. Every method may raise `StoreUnavailable`."""

    async def newest(self) -> PriceVersion | None:
        """Return the price version with the highest number, which is in force; `None` if there is none."""
        ...

    async def add(self, version: PriceVersion) -> bool:
        """Store a new price version durably; return false, and store nothing, if a version with its number exists."""
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
        self._early: EarlyReads[None] = EarlyReads()

    async def current(self) -> PriceList:
        """Return the price list in force, at most `CACHE_TTL` seconds old while the store answers.

        The list is empty and of version 0 if no prices were ever set.

        Raises:
            StoreUnavailable: the store does not answer, and no version is known.
        """
        if (fresh := self._fresh()) is not None:
            if self._is_due:
                self._early.start(None, self._read_if_due)
            return fresh
        if self._reading.locked() and self._known is not None:
            return self._known  # another request is reading: do not wait for it
        async with self._reading:
            return self._fresh() or await self._read()

    async def newest(self) -> PriceVersion:
        """Return the price version in force from the store, past the cache; an empty one of version 0 if it has none.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        return await self._store.newest() or PriceVersion(NO_PRICES, 0.0)

    async def load(self, file: PriceFile) -> PriceVersion:
        """Put the prices of the operator's files in force, which locks the prices: `edit` is refused from now on.

        Return the version in force. A version is added unless the current one has the same prices and is locked.

        Raises:
            StoreUnavailable: the version may or may not have been stored; loading again is safe.
        """
        while True:
            there = await self.newest()
            version = there.prices.version
            if there.in_file and there.prices == file.price_list(version):
                return there
            new = PriceVersion(file.price_list(version + 1), self._clock(), in_file=True)
            if await self._store.add(new):
                return new

    async def unlock(self, initial: PriceFile) -> PriceVersion:
        """Let the prices be edited by `edit`, when the operator has no price file; return the version in force.

        The prices in force stay; a store without any gets those of `initial`.

        Raises:
            StoreUnavailable: the version may or may not have been stored; repeating the call is safe.
        """
        while True:
            there = await self.newest()
            version = there.prices.version
            if version and not there.in_file:
                return there
            prices = replace(there.prices, version=version + 1) if version else initial.price_list(1)
            new = PriceVersion(prices, self._clock())
            if await self._store.add(new):
                return new

    async def edit(self, model: str | None, rates: RateCard | None, *, seen: int) -> PriceVersion:
        """Store and return a new price version in which one model has other rates, or none if `rates` is `None`.

        Args:
            model: its name; `None`: the default of models without an entry.
            rates: a rate for each service class.
            seen: the number of the version that the caller has changed; another edit since then is not overwritten.

        Raises:
            UnacceptableValue: a price or the name is invalid, there are too many models, or no price would be left.
            NoSuchRecord: `rates` is `None`, and the model has no rates of its own.
            PricesInFile: the operator's files have the prices.
            PricesChanged: version `seen` is not in force (any more).
            StoreUnavailable: the outcome is unknown; a repetition raises `PricesChanged` if the version was stored.
        """
        if model is not None:
            _check_name(model)
        there = await self.newest()
        if there.in_file:
            raise PricesInFile("the prices are in the operator's price file: change it there")
        if there.prices.version != seen:
            raise PricesChanged("the prices were changed meanwhile: look at them again")
        new = PriceVersion(_edited(there.prices, model, rates), self._clock())
        if not await self._store.add(new):
            raise PricesChanged("the prices were changed meanwhile: look at them again")
        self._known, self._read_at = new.prices, self._monotonic()
        return new

    @property
    def _is_due(self) -> bool:
        """Whether the known version is to be read again soon, so that an early read of the store should start."""
        return is_due(self._read_at + CACHE_TTL - self._monotonic(), CACHE_TTL)

    async def _read_if_due(self) -> None:
        async with self._reading:
            if self._is_due:
                await self._read()

    def _fresh(self) -> PriceList | None:
        return self._known if self._monotonic() - self._read_at < CACHE_TTL else None

    async def _read(self) -> PriceList:
        before, self._read_at = self._read_at, self._monotonic()
        try:
            newest = await self._store.newest()
        except StoreUnavailable:
            if self._known is None:
                raise
            if self._read_at - before < CACHE_TTL:  # an early read
                self._read_at = before
            return self._known
        prices = NO_PRICES if newest is None else newest.prices
        self._known = prices if newest is not None else None
        return prices


def _check_name(model: str) -> None:
    try:
        check_model_name(model)
    except ValueError as error:
        raise UnacceptableValue("model", str(error)) from error


def _edited(prices: PriceList, model: str | None, rates: RateCard | None) -> PriceList:
    checked = None if rates is None else {each: check_rate(rates[each]) for each in ServiceClass}
    models, default = dict(prices.models), prices.default
    if model is None:
        default = checked
    elif checked is None:
        if models.pop(model, None) is None:
            raise NoSuchRecord(f"{model} has no prices of its own")
    else:
        models[model] = checked
    if not models and default is None:
        raise UnacceptableValue("rates", "the last price can't be removed: no request could be accepted")
    if len(models) > MAX_MODELS:
        raise UnacceptableValue("model", f"more than {MAX_MODELS} models have prices of their own")
    return PriceList(prices.version + 1, models, default)
