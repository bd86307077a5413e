"""Keeps the store's price list to what the operator's file says: at start, and whenever the file changes.

A file that is wrong at start stops the process; one that becomes wrong later is logged, and the prices stay.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import structlog

from auth_billing.errors import StoreUnavailable
from auth_billing.prices import price_file
from auth_billing.prices.price_book import PriceBook
from auth_billing.prices.price_file import Source
from infra.runtime.lifecycle import StartupError

EVERY = 5.0
"""Seconds between looks at the file."""

_log = structlog.get_logger(__name__)


class PriceWatch:
    """Watches one price file, and a proxy's catalogue if there is one.

    Args:
        path: `None` is the file that is shipped.
        every: seconds between looks.
    """

    def __init__(
        self, book: PriceBook, path: Path | None, catalogue: Path | None = None, *, every: float = EVERY
    ) -> None:
        self._book = book
        self._paths = [path or price_file.SHIPPED, *([] if catalogue is None else [catalogue])]
        self._every = every
        self._seen: list[Source] = []
        self._loaded: list[Source] = []

    async def load(self) -> None:
        """Put the prices of the file in force.

        Raises:
            StartupError: the file can't be read or is wrong.
            StoreUnavailable: nothing is decided.
        """
        await self._put_in_force(await self._read())

    async def look(self) -> None:
        """Put the prices of the file in force if it has changed, and is not being written just now.

        Raises: as `load`.
        """
        before, self._seen = self._seen, await self._read()
        if before == self._seen != self._loaded:
            await self._put_in_force(self._seen)

    async def run(self, stop: asyncio.Event) -> None:
        """Look again and again until `stop`."""
        said = ""
        while not stop.is_set():
            try:
                await self.look()
                said = ""
            except (StartupError, StoreUnavailable) as error:
                if str(error) != said:  # once, not every five seconds
                    said = str(error)
                    _log.error("the prices stay as they are", reason=said)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self._every)

    async def _put_in_force(self, sources: list[Source]) -> None:
        prices = price_file.parse(*sources)
        version = await self._book.load(prices)
        self._loaded = sources
        for catalogue in sources[1:]:
            for model in price_file.unpriced(prices, catalogue):
                _log.warning("a provider's model has no price of its own", model=model, catalogue=str(catalogue.path))
        _log.info("prices in force", version=version.prices.version, files=[str(each.path) for each in sources])

    async def _read(self) -> list[Source]:
        return [await asyncio.to_thread(price_file.source, path) for path in self._paths]
