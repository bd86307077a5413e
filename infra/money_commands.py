"""What the money commands (`headrace prices`, ...) ask of a store: opened, asked, closed. Prints nothing."""

from __future__ import annotations

from pathlib import Path

from auth_billing import price_file
from auth_billing.price_book import PriceBook
from auth_billing.pricing import PriceList
from auth_billing.store.prices import MongoPriceStore
from infra.account_access import opened_store
from infra.home import Home


async def prices_in_force(home: Home, mongodb_url: str) -> PriceList:
    """The price list in force; version 0 if there is none yet.

    Raises:
        StartupError: there is no store.
    """
    async with opened_store(home, mongodb_url) as connection:
        return await PriceBook(MongoPriceStore(connection)).current()


def prices_of(file: Path, catalogue: Path | None) -> PriceList:
    """What a price file says, with the models of a proxy's catalogue.

    Raises:
        StartupError: it is wrong; says why.
    """
    sources = [price_file.source(path) for path in (file, catalogue) if path is not None]
    return price_file.parse(*sources).price_list(0)
