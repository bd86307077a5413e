"""Commands `headrace key`, `keys ...` (create, list, rotate, revoke) and `control-secret`: options and output.

Each command imports its implementation (`key_commands.py`) only when it is run, so that others start fast.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.table import Table

from auth_billing.access.scopes import Scope
from infra.cli.store_command import MongoUrl, console, print_table, run_with_accounts
from infra.home import environment
from infra.home.settings import LauncherSettings

if TYPE_CHECKING:
    from auth_billing.keys.key_records import ApiKeyRecord
    from infra.cli.key_commands import KeyCommands

PANEL = "People and keys"
ResultT = TypeVar("ResultT")

keys = typer.Typer(help="API keys: create, list, rotate, revoke (docs/keys.md).", no_args_is_help=True)

Organisation = Annotated[str, typer.Option(help="Its id.")]
KeyId = Annotated[str, typer.Argument(help="As `headrace keys list` shows it: key_...")]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def register(app: typer.Typer) -> None:
    """Add the commands `key`, `keys ...` and `control-secret` to `app`, the `headrace` command line."""
    app.command(rich_help_panel=PANEL)(key)
    app.add_typer(keys, name="keys", rich_help_panel=PANEL)
    app.command(rich_help_panel=PANEL)(control_secret)


def key(mongodb_url: MongoUrl = None) -> None:
    """Replace the development account's API key and print the new one."""
    console.print(
        run_with_accounts(mongodb_url, lambda access: access.renew_development_key()), markup=False, soft_wrap=True
    )


@keys.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the key.")],
    *,
    organisation: Organisation = "development",
    project: Annotated[str | None, typer.Option(help="Its id; by default the oldest.", show_default=False)] = None,
    admin: Annotated[bool, typer.Option("--admin", help="An admin key, for /v1/organization.")] = False,
    scope: Annotated[list[Scope] | None, typer.Option(help="May be repeated; by default all.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="May be repeated; by default all.")] = None,
    expires_in: Annotated[str | None, typer.Option(help="For example 90d, 12h.", show_default=False)] = None,
    mongodb_url: MongoUrl = None,
) -> None:
    """Create an API key and print it; it can't be shown again."""
    from auth_billing.keys.key_issuance import KeySpec  # noqa: PLC0415
    from auth_billing.keys.key_management import ADMIN_KEYS  # noqa: PLC0415

    if admin and project is not None:
        raise typer.BadParameter("a project's key, or --admin")
    spec = KeySpec(
        name,
        scopes=frozenset(scope) if scope else None,
        models=frozenset(model) if model else None,
        expires=None if expires_in is None else time.time() + seconds(expires_in),
    )
    of = ADMIN_KEYS if admin else project
    typer.echo(_run(mongodb_url, lambda commands: commands.create(organisation, of, spec)).key.text)


@keys.command("list")
def list_keys(*, organisation: Organisation = "development", mongodb_url: MongoUrl = None) -> None:
    """List an organisation's API keys, without their secret text, which is not stored."""
    print_table(_table(_run(mongodb_url, lambda commands: commands.all(organisation))))


@keys.command()
def rotate(
    key: KeyId,
    *,
    overlap: Annotated[str, typer.Option(help="How long the old key stays valid, for example 1h.")] = "24h",
    mongodb_url: MongoUrl = None,
) -> None:
    """Replace an API key by a new one and print that; the old key stays valid for a while."""
    lasts = seconds(overlap)
    typer.echo(_run(mongodb_url, lambda commands: commands.rotate(key, lasts)).key.text)


@keys.command()
def revoke(key: KeyId, *, mongodb_url: MongoUrl = None) -> None:
    """Revoke an API key: every gateway refuses it within 5 seconds."""
    ended = _run(mongodb_url, lambda commands: commands.revoke(key))
    typer.echo(f"revoked key_{ended.key_id} ({ended.name})")


def control_secret() -> None:
    """Print the secret that signs control messages, for HEADRACE_CONTROL_SECRET of workers on other machines."""
    from auth_billing.keys import pepper  # noqa: PLC0415
    from gateway.settings import GatewaySettings  # noqa: PLC0415

    settings, home = environment.load(GatewaySettings), environment.load(LauncherSettings).folder
    typer.echo(settings.control_secret or pepper.control_secret(pepper.load_pepper(home.path, settings.api_key_pepper)))


def seconds(text: str) -> float:
    """Convert a duration of the command line, a number followed by s, m, h or d such as `90d`, to seconds.

    Raises:
        typer.BadParameter: it is not a duration.
    """
    if not re.fullmatch(r"[0-9]{1,6}[smhd]", text):
        raise typer.BadParameter(f"{text!r} is not a time such as 90d, 12h, 30m or 10s")
    return int(text[:-1]) * _UNITS[text[-1]]


def _table(records: list[ApiKeyRecord]) -> Table:
    table = Table(box=None)
    for column in ("key", "name", "of", "ends in", "scopes", "models", "created", "last used", "expires"):
        table.add_column(column, overflow="fold", no_wrap=column != "models")
    for key in records:
        table.add_row(
            f"key_{key.key_id}",
            key.name,
            key.project or "(admin)",
            key.last4,
            "all" if key.scopes is None else ", ".join(sorted(key.scopes)),
            "all" if key.models is None else ", ".join(sorted(key.models)),
            *(_date(at) for at in (key.created, key.last_used, key.expires)),
        )
    return table


def _date(at: float | None) -> str:
    return "-" if at is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def _run(mongodb_url: str | None, work: Callable[[KeyCommands], Awaitable[ResultT]]) -> ResultT:
    from infra.cli.key_commands import KeyCommands  # noqa: PLC0415

    return run_with_accounts(mongodb_url, lambda access: work(KeyCommands(access)))
