"""Commands `headrace invite`, `reset-password` and `reset-second-factor`: options and output.

Each command imports its implementation only when it is run, so that others start fast.
"""

from __future__ import annotations

from typing import Annotated

import typer

from infra.cli.keys_cli import PANEL
from infra.cli.store_command import MongoUrl, run_with_accounts
from infra.home import environment
from infra.home.home import lock_holder
from infra.home.settings import LauncherSettings
from runtime.lifecycle import StartupError

Email = Annotated[str, typer.Argument(help="E-mail address of the account.")]
Url = Annotated[
    str | None,
    typer.Option(help="Public URL; by default HEADRACE_PUBLIC_URL, else the listening address.", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Add the commands `invite`, `reset-password` and `reset-second-factor` to `app`, the `headrace` command line."""
    for command in (invite, reset_password, reset_second_factor):
        app.command(rich_help_panel=PANEL)(command)


def invite(
    *,
    role: Annotated[str, typer.Option(help="owner, admin, member or viewer.")] = "owner",
    email: Annotated[str, typer.Option(help="Restrict the invitation to this address.", show_default=False)] = "",
    organisation: Annotated[str, typer.Option(help="Its id.")] = "development",
    url: Url = None,
    mongodb_url: MongoUrl = None,
) -> None:
    """Print an invitation link to an organisation, valid once, for seven days."""
    from auth_billing.access.roles import Role  # noqa: PLC0415
    from infra.accounts import sign_in_services  # noqa: PLC0415

    if role not in list(Role):
        raise StartupError(f"--role: {role!r} is none of {', '.join(Role)}")
    origin = _origin(url)
    link = run_with_accounts(
        mongodb_url, lambda access: sign_in_services.invite(access, organisation, Role(role), email, origin)
    )
    typer.echo(link)


def reset_password(email: Email, *, url: Url = None, mongodb_url: MongoUrl = None) -> None:
    """Print a link with which a person sets a new password: valid once, for an hour; earlier links become void."""
    from infra.cli.people_commands import PeopleCommands  # noqa: PLC0415

    origin = _origin(url)
    typer.echo(run_with_accounts(mongodb_url, lambda access: PeopleCommands(access).reset_password(email, origin)))


def reset_second_factor(email: Email, *, mongodb_url: MongoUrl = None) -> None:
    """Remove a person's second factor, so that the password alone signs in."""
    from infra.cli.people_commands import PeopleCommands  # noqa: PLC0415

    run_with_accounts(mongodb_url, lambda access: PeopleCommands(access).reset_second_factor(email))
    typer.echo(f"removed the second factor of {email}")


def _origin(url: str | None) -> str:
    """Return the URL that links begin with: `url`, else the configured one, else that of this machine's platform."""
    from chat_ui.settings import ChatSettings  # noqa: PLC0415

    launcher = environment.load(LauncherSettings)
    holder = lock_holder(launcher.folder)
    here = holder.url if holder is not None and holder.url else launcher.url
    return (url or environment.load(ChatSettings).public_url or here).rstrip("/")
