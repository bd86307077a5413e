"""The money commands of `headrace`: `prices`, `credit`, `budget`, `audit`.

Reads options and prints; `money_commands.py` acts. What they run is imported only when one is chosen, as everywhere in
the command line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console

from auth_billing.errors import AccountError
from infra.home import environment
from infra.home.settings import LauncherSettings

if TYPE_CHECKING:
    from auth_billing.money.credit import CreditEntry, CreditKind
    from infra.cli.money_commands import MoneyCommands

PANEL = "Money"
MOST_SHOWN = 200
ResultT = TypeVar("ResultT")

credit = typer.Typer(help="What an organisation has paid in, was given and has left.", no_args_is_help=True)
console = Console(highlight=False)

MongoUrl = Annotated[
    str | None,
    typer.Option("--mongodb-url", help="MongoDB; by default the store of the launcher that runs.", show_default=False),
]
Organisation = Annotated[str, typer.Argument(help="Its id, as org-..., or `development`.")]
Usd = Annotated[str, typer.Argument(metavar="USD", help="As 12.50, exact to nine digits after the point.")]
Reference = Annotated[
    str | None,
    typer.Option(help="Your own name for it; the same one again changes nothing.", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Add the commands to `headrace`."""
    app.command(rich_help_panel=PANEL)(prices)
    app.command(rich_help_panel=PANEL)(budget)
    app.command(rich_help_panel=PANEL)(audit)
    app.add_typer(credit, name="credit", rich_help_panel=PANEL)


def prices(
    *,
    check: Annotated[
        Path | None, typer.Option(help="Show what this price file says, and put nothing in force.", show_default=False)
    ] = None,
    proxy_config: Annotated[
        Path | None, typer.Option(help="With --check: a proxy's catalogue beside it.", show_default=False)
    ] = None,
    mongodb_url: MongoUrl = None,
) -> None:
    """Show the prices in force, or those of a file."""
    from infra.cli.money_commands import prices_of  # noqa: PLC0415
    from infra.cli.money_tables import price_table  # noqa: PLC0415

    shown = _ask(mongodb_url, lambda money: money.prices()) if check is None else prices_of(check, proxy_config)
    console.print(price_table(shown))


def budget(
    organisation: Organisation,
    usd: Annotated[
        str | None, typer.Argument(metavar="USD", help="A month; without it the budgets are shown.", show_default=False)
    ] = None,
    *,
    project: Annotated[str | None, typer.Option(help="Of this project.", show_default=False)] = None,
    key: Annotated[str | None, typer.Option(help="Of this API key (its id).", show_default=False)] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the budget away.")] = False,
    mongodb_url: MongoUrl = None,
) -> None:
    """Show or set monthly budgets of an organisation, a project or a key."""
    from infra.cli.money_tables import budget_table  # noqa: PLC0415

    if project is not None and key is not None:
        raise typer.BadParameter("a budget is of a project or of a key, not of both")
    if remove and usd is not None:
        raise typer.BadParameter("an amount, or --remove")
    if remove or usd is not None:
        _ask(mongodb_url, lambda money: money.set_budget(organisation, usd, project=project, key=key))
    shown = _ask(mongodb_url, lambda money: money.statement(organisation))
    console.print(budget_table(list(shown.budgets)))


def audit(mongodb_url: MongoUrl = None) -> None:
    """Prove that the books are right, while the platform runs or not; else show what differs, and exit with 1."""
    from infra.cli.money_tables import check_table, difference_table  # noqa: PLC0415

    report = _ask(mongodb_url, lambda money: money.audit())
    console.print(check_table(report))
    if report.differences:
        console.print(difference_table(report.differences[:MOST_SHOWN]))
        console.print(f"{len(report.differences)} differences")
        raise typer.Exit(1)
    console.print("no difference")


@credit.command("show")
def show_credit(organisation: Organisation, mongodb_url: MongoUrl = None) -> None:
    """Show what an organisation has, and its latest credit."""
    from infra.cli.money_tables import balance_table, credit_table  # noqa: PLC0415

    shown = _ask(mongodb_url, lambda money: money.statement(organisation))
    console.print(balance_table(shown.balance))
    console.print(credit_table(list(shown.entries)))


@credit.command()
def grant(organisation: Organisation, usd: Usd, *, reference: Reference = None, mongodb_url: MongoUrl = None) -> None:
    """Give an organisation credit."""
    from auth_billing.money.credit import CreditKind  # noqa: PLC0415

    _add(CreditKind.PROMO, organisation, usd, reference, mongodb_url)


@credit.command("top-up")
def top_up(organisation: Organisation, usd: Usd, *, reference: Reference = None, mongodb_url: MongoUrl = None) -> None:
    """Enter what an organisation has paid."""
    from auth_billing.money.credit import CreditKind  # noqa: PLC0415

    _add(CreditKind.TOP_UP, organisation, usd, reference, mongodb_url)


@credit.command()
def refund(
    organisation: Organisation,
    job: Annotated[str, typer.Argument(help="The id of the answer, as chatcmpl-...")],
    usd: Annotated[
        str | None, typer.Argument(metavar="USD", help="A part of what it cost; by default all.", show_default=False)
    ] = None,
    *,
    reference: Reference = None,
    mongodb_url: MongoUrl = None,
) -> None:
    """Pay back to an organisation's credit what a job cost."""
    _say(_ask(mongodb_url, lambda money: money.refund(organisation, job, usd, reference)))


@credit.command()
def close(organisation: Organisation, *, mongodb_url: MongoUrl = None) -> None:
    """Take on no more work of an organisation, whatever it has; what runs is finished and settled."""
    _ask(mongodb_url, lambda money: money.set_open(organisation, to=False))
    console.print(f"{organisation} is closed")


@credit.command()
def reopen(organisation: Organisation, *, mongodb_url: MongoUrl = None) -> None:
    """Take on an organisation's work again."""
    _ask(mongodb_url, lambda money: money.set_open(organisation, to=True))
    console.print(f"{organisation} is open")


def _add(kind: CreditKind, organisation: str, usd: str, reference: str | None, mongodb_url: str | None) -> None:
    _say(_ask(mongodb_url, lambda money: money.add_credit(kind, organisation, usd, reference)))


def _say(entry: CreditEntry) -> None:
    from auth_billing.money.amounts import format_usd  # noqa: PLC0415

    console.print(f"{entry.kind}: {format_usd(entry.amount)} USD to {entry.organisation} (reference {entry.reference})")


def _ask(mongodb_url: str | None, work: Callable[[MoneyCommands], Awaitable[ResultT]]) -> ResultT:
    """Do something with the store; what can't be done is said in one line."""
    from auth_billing.settings import BillingSettings  # noqa: PLC0415
    from infra.cli.money_commands import opened_money  # noqa: PLC0415

    url = environment.load(BillingSettings, mongodb_url=mongodb_url).mongodb_url
    home = environment.load(LauncherSettings).folder

    async def run() -> ResultT:
        async with opened_money(home, url) as money:
            return await work(money)

    try:
        return asyncio.run(run())
    except AccountError as error:
        typer.echo(f"headrace: {error}", err=True)
        raise typer.Exit(1) from error
