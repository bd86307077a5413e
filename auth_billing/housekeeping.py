"""What the billing process does beside settling: keeps the prices to their file.

The all-in-one process does the same. Nothing here is in the way of a request or a settlement.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from auth_billing.errors import StoreUnavailable
from auth_billing.price_book import PriceBook
from auth_billing.price_watch import PriceWatch
from auth_billing.settings import BillingSettings
from auth_billing.store.connection import StoreConnection
from auth_billing.store.prices import MongoPriceStore
from infra.runtime.lifecycle import StartupError


class Housekeeping:
    """The chores of one billing process on a store that answers."""

    def __init__(self, settings: BillingSettings, connection: StoreConnection) -> None:
        book = PriceBook(MongoPriceStore(connection))
        self._prices = PriceWatch(book, _path(settings.price_file), _path(settings.proxy_config))

    async def prepare(self) -> None:
        """What must be done before anybody is served: prices are in force.

        Raises:
            StartupError: the price file is wrong, or the store went away.
        """
        try:
            await self._prices.load()
        except StoreUnavailable as error:
            raise StartupError(f"the store does not answer: {error}") from error

    async def run(self, stop: asyncio.Event) -> None:
        """Do the chores until `stop`."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._prices.run(stop))


def _path(setting: str) -> Path | None:
    return Path(setting) if setting else None
