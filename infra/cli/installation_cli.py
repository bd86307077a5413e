"""Commands of `headrace` about the whole installation: `organisations`, `usage`, `prices` (show, set, remove).

Command line options and output; each command imports its implementation only when it is run, so that others start fast.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from infra.cli.money_cli import PANEL, run_money_command
from infra.cli.store_command import MongoUrl, console, print_table

prices = typer.Typer(help="Token prices: show, set, remove (docs/prices.md).", invoke_without_command=True)

Model = Annotated[str, typer.Argument(help="Its name, or `default` for all models without a price.")]
UsdPerMillion = Annotated[str, typer.Option(metavar="USD", help="Per million tokens, as 0.15.", show_default=False)]

DEFAULT = "default"


def register(app: typer.Typer) -> None:
    """Add the commands `prices`, `organisations` and `usage` to `app`, the `headrace` command line."""
    app.add_typer(prices, name="prices", rich_help_panel=PANEL)
    app.command(rich_help_panel=PANEL)(organisations)
    app.command(rich_help_panel=PANEL)(usage)


@prices.callback()
def show_prices(
    context: typer.Context,
    *,
    check: Annotated[
        Path | None, typer.Option(help="Show this file's prices without applying them.", show_default=False)
    ] = None,
    proxy_config: Annotated[
        Path | None, typer.Option(help="With --check: a proxy's catalogue to include.", show_default=False)
    ] = None,
    mongodb_url: MongoUrl = None,
) -> None:
    """Show the token prices in force, or those of a price file; subcommands set and remove prices."""
    from infra.cli.money_commands import prices_of  # noqa: PLC0415
    from infra.cli.money_tables import price_table  # noqa: PLC0415

    if context.invoked_subcommand is None:
        if check is None:
            shown = run_money_command(mongodb_url, lambda money: money.prices())
        else:
            shown = prices_of(check, proxy_config)
        print_table(price_table(shown))


@prices.command("set")
def set_price(
    model: Model,
    *,
    input: Annotated[
        str | None, typer.Option(metavar="USD", help="Per million tokens, as 0.15.", show_default=False)
    ] = None,
    output: UsdPerMillion = "0",
    cached_input: Annotated[
        str | None, typer.Option(metavar="USD", help="By default as --input.", show_default=False)
    ] = None,
    priority: Annotated[str, typer.Option(help="Factor of the prices for service_tier priority.")] = "1",
    flex: Annotated[str, typer.Option(help="Factor of the prices for service_tier flex.")] = "1",
    unit: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=USD", help="Of one image (1024x1024=0.04) or call (call=0.001); repeatable."),
    ] = None,
    mongodb_url: MongoUrl = None,
) -> None:
    """Set a model's prices for new requests, at every gateway within five seconds; refused if a price file is used.

    The price of an embedding model's tokens is its input price. A model or tool may have prices of units only.
    """
    tokens = {} if input is None else {"input": input, "cached_input": cached_input, "output": output}
    units = dict(each.partition("=")[::2] for each in unit or ())
    _change(model, {**tokens, "units": units, "tiers": {"priority": priority, "flex": flex}}, mongodb_url)


@prices.command("remove")
def remove_price(model: Model, *, mongodb_url: MongoUrl = None) -> None:
    """Remove a model's own prices, so that the default prices apply to it."""
    _change(model, None, mongodb_url)


def organisations(*, mongodb_url: MongoUrl = None) -> None:
    """List the organisations of the installation with their credit."""
    from infra.cli.money_tables import organisation_table  # noqa: PLC0415

    print_table(organisation_table(run_money_command(mongodb_url, lambda money: money.organisations())))


def usage(
    *,
    days: Annotated[int, typer.Option(help="Days (UTC), today included.", min=1, max=366)] = 30,
    csv: Annotated[bool, typer.Option("--csv", help="Write CSV: a row for each day, organisation and model.")] = False,
    mongodb_url: MongoUrl = None,
) -> None:
    """Show tokens, requests and cost of all organisations by day and model, without the last hours."""
    from infra.cli.money_tables import usage_table  # noqa: PLC0415

    if csv:
        with run_money_command(mongodb_url, lambda money: money.usage_csv(days)) as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        return
    print_table(usage_table(run_money_command(mongodb_url, lambda money: money.installation.usage_of_all(days))))


def _change(model: str, entry: dict[str, object] | None, mongodb_url: str | None) -> None:
    name = None if model == DEFAULT else model
    version = run_money_command(mongodb_url, lambda money: money.set_price(name, entry))
    console.print(f"version {version.prices.version} of the prices is in force")
