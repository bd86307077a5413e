"""`headrace prices`: the price list as a table. Knows prices, not where they are."""

from __future__ import annotations

from rich.table import Table

from auth_billing.amounts import usd
from auth_billing.pricing import PriceList, Rate, Rates
from router.messages import ServiceClass

OTHERS = "(any other)"
MILLION = 1_000_000


def price_table(prices: PriceList) -> Table:
    """What every model costs, in USD per million tokens; classes that cost the same as `default` have no row."""
    table = Table(title=f"USD per million tokens, version {prices.version}", title_justify="left")
    for column in ("model", "class"):
        table.add_column(column)
    for column in ("input", "cached input", "output"):
        table.add_column(column, justify="right")
    for model, rates in sorted(prices.models.items()):
        _add_rows(table, model, rates)
    if prices.default is not None:
        _add_rows(table, OTHERS, prices.default)
    return table


def _add_rows(table: Table, model: str, rates: Rates) -> None:
    usual = rates[ServiceClass.DEFAULT]
    table.add_row(model, ServiceClass.DEFAULT.value, *_cells(usual))
    for service_class, rate in rates.items():
        if rate != usual:
            table.add_row("", service_class.value, *_cells(rate))


def _cells(rate: Rate) -> list[str]:
    return [usd(each * MILLION) for each in (rate.input, rate.cached_input, rate.output)]
