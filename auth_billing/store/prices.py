"""MongoDB store of price lists: `prices {_id: version, at, in_file, rates: [{model, class, input, ...}]}`.

`rates` is a list, because model names contain dots and cannot be field names. The default rates have no model.
`units`, the prices of units by name, is absent where a model has none.
"""

from __future__ import annotations

from typing import Any

from auth_billing.prices.price_book import PriceVersion
from auth_billing.prices.pricing import PriceList, RateCard, TokenRate
from auth_billing.store.connection import StoreConnection
from router.messages import ServiceClass

COLLECTION = "prices"


class MongoPriceStore:
    """MongoDB implementation of `price_book.PriceStore`. Methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._prices = connection.durable(COLLECTION)

    async def newest(self) -> PriceVersion | None:
        """Return the price version with the highest number, which is in force; `None` if there is none."""
        return await self._prices.find_record(_from_document, {}, sort=[("_id", -1)])

    async def add(self, version: PriceVersion) -> bool:
        """Store a new price version durably; return false, and store nothing, if a version with its number exists."""
        return await self._prices.insert_if_absent(_to_document(version))


def _to_document(version: PriceVersion) -> dict[str, Any]:
    prices = version.prices
    tables = [*prices.models.items(), *([] if prices.default is None else [(None, prices.default)])]
    rows = [
        {"model": model, "class": service_class.value, **rate_to_document(rate)}
        for model, rates in tables
        for service_class, rate in rates.items()
    ]
    return {"_id": prices.version, "at": version.at, "in_file": version.in_file, "rates": rows}


def _from_document(document: dict[str, Any]) -> PriceVersion:
    tables: dict[str | None, dict[ServiceClass, TokenRate]] = {}
    for row in document["rates"]:
        rate = TokenRate(row["input"], row["cached_input"], row["output"], units=row.get("units", {}))
        tables.setdefault(row["model"], {})[ServiceClass(row["class"])] = rate
    default: RateCard | None = tables.pop(None, None)
    models: dict[str, RateCard] = {model: rates for model, rates in tables.items() if model is not None}
    prices = PriceList(document["_id"], models, default)
    return PriceVersion(prices, document["at"], in_file=document.get("in_file", False))


def rate_to_document(rate: TokenRate) -> dict[str, Any]:
    """Convert a rate or price to its fields in a MongoDB document; `units` is left out if there are none."""
    return {name: value for name, value in vars(rate).items() if name != "units" or value}
