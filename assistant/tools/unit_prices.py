"""Polls the prices in the store, to tell which models and units have one, so that the assistant uses no others."""

from __future__ import annotations

import asyncio

import structlog

from auth_billing.errors import NoPrice, StoreUnavailable
from auth_billing.prices.price_book import CACHE_TTL, PriceBook
from auth_billing.prices.pricing import PriceList
from router.messages import ServiceClass, Usage

_log = structlog.get_logger(__name__)


class UnitPrices:
    """The prices in force, as last read from the store."""

    def __init__(self, book: PriceBook) -> None:
        self._book = book
        self.known: PriceList | None = None
        """`None` before the first reading."""

    async def follow(self) -> None:
        """Read the prices from the store every few seconds, until cancelled: a background task of the assistant.

        While the store does not answer, the prices read last stay in force.
        """
        while True:
            try:
                self.known = await self._book.current()
            except StoreUnavailable as error:
                _log.warning("prices are not known", reason=str(error))
            await asyncio.sleep(CACHE_TTL)

    def has(self, model: str, unit: str) -> bool:
        """Return whether `unit` (such as an image size) of a model or tool has a price; false until prices are read."""
        return self._cover(model, Usage(prompt_tokens=0, units={unit: 1}))

    def has_tokens(self, model: str) -> bool:
        """Return whether the tokens of `model` have a price, of its own or the default one; false before a reading."""
        return self._cover(model, Usage(prompt_tokens=1))

    def _cover(self, model: str, usage: Usage) -> bool:
        if self.known is None:
            return False
        try:
            self.known.price_of(model, usage, ServiceClass.DEFAULT)
        except NoPrice:
            return False
        return True
