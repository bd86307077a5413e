"""Helpers of `headrace` commands on the store: the option of its URL, the console, tables, errors in one line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from auth_billing.errors import AccountError
from infra.home import environment
from infra.home.settings import LauncherSettings

if TYPE_CHECKING:
    from infra.accounts.account_services import AccountServices

CommandsT = TypeVar("CommandsT")
ResultT = TypeVar("ResultT")

_MAX_LINE = 1000
"""Characters of a table's line; longer texts are folded."""

console = Console(highlight=False)

MongoUrl = Annotated[
    str | None,
    typer.Option("--mongodb-url", help="MongoDB; by default the store of the launcher that runs.", show_default=False),
]


def print_table(table: Table) -> None:
    """Print a table with one line per row, wider than the terminal if need be, so that ids are whole and `grep` works.

    `Console.print` cuts or folds cells at the console's width, which is 80 in a pipe.
    """
    needed = Measurement.get(console, console.options.update(max_width=_MAX_LINE), table).maximum
    Console(highlight=False, width=max(console.width, needed)).print(table)


def run_command(
    opened: AbstractAsyncContextManager[CommandsT], work: Callable[[CommandsT], Awaitable[ResultT]]
) -> ResultT:
    """Open the context `opened`, run `work` with what it yields and return the result, in an event loop.

    An `AccountError` is printed in one line, and the process exits with status 1.
    """

    async def run() -> ResultT:
        async with opened as commands:
            return await work(commands)

    try:
        return asyncio.run(run())
    except AccountError as error:
        typer.echo(f"headrace: {error}", err=True)
        raise typer.Exit(1) from error


def run_with_accounts(mongodb_url: str | None, work: Callable[[AccountServices], Awaitable[ResultT]]) -> ResultT:
    """Run `work` with the account services of a store, and return its result; errors as in `run_command`.

    Without a URL it is the store of the launcher.
    """
    from gateway.settings import GatewaySettings  # noqa: PLC0415
    from infra.accounts import account_services  # noqa: PLC0415

    settings, home = (
        environment.load(GatewaySettings, mongodb_url=mongodb_url),
        environment.load(LauncherSettings).folder,
    )
    return run_command(account_services.opened(home, settings.mongodb_url, settings.api_key_pepper), work)
