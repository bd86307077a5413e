"""Commands `headrace dead ...`: list, show, replay and drop dead letters (options and output; docs/dead-letters.md).

Each command imports its implementation (`dead_letter_commands.py`) only when it is run, so that others start fast.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from infra.cli.store_command import MongoUrl, console, print_table, run_command
from infra.home import environment
from infra.home.settings import LauncherSettings

if TYPE_CHECKING:
    from infra.cli.dead_letter_commands import DeadLetterCommands, Done

PANEL = "A running platform"
ResultT = TypeVar("ResultT")

dead = typer.Typer(help="Dead letters: jobs that failed for good, and unsettled usage.", no_args_is_help=True)

AmqpUrl = Annotated[
    str | None,
    typer.Option(
        "--amqp-url", help="RabbitMQ, as its administrator; by default that of the launcher.", show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Id = Annotated[str, typer.Argument(help="As `headrace dead list` shows it.")]
Ids = Annotated[list[str] | None, typer.Argument(help="As `headrace dead list` shows them.", show_default=False)]
All = Annotated[bool, typer.Option("--all", help="All dead letters.")]


def register(app: typer.Typer) -> None:
    """Add the commands `dead list`, `show`, `replay` and `drop` to `app`, the `headrace` command line."""
    app.add_typer(dead, name="dead", rich_help_panel=PANEL)


@dead.command("list")
def list_dead(*, as_json: AsJson = False, amqp_url: AmqpUrl = None) -> None:
    """List all dead letters of the broker, with the reason of each."""
    from infra.cli.dead_letter_tables import metadata, table  # noqa: PLC0415

    letters = _run(amqp_url, None, lambda commands: commands.all())
    if as_json:
        typer.echo(json.dumps([metadata(each) for each in letters], indent=2))
    elif letters:
        print_table(table(letters))
    else:
        console.print("no dead letters")


@dead.command()
def show(
    id: Id,
    *,
    prompt: Annotated[bool, typer.Option("--prompt", help="Show prompts and answers, too.")] = False,
    as_json: AsJson = False,
    amqp_url: AmqpUrl = None,
) -> None:
    """Show headers and body of one dead letter, without prompts and answers."""
    from infra.cli.dead_letter_tables import full_view  # noqa: PLC0415

    letters = _run(amqp_url, None, lambda commands: commands.all())
    found = [full_view(each, prompt=prompt) for each in letters if each.id == id]
    if not found:
        _fail(f"no dead letter {id}")
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for each in found:
        for name in ("headers", "body"):
            each[name] = json.dumps(each[name], indent=2, ensure_ascii=False)
        for name, value in each.items():
            console.print(f"{name:<12} {value}", markup=False, soft_wrap=True)


@dead.command()
def replay(ids: Ids = None, *, every: All = False, amqp_url: AmqpUrl = None, mongodb_url: MongoUrl = None) -> None:
    """Publish dead letters again (jobs that are not closed, usage that could not be settled), by id or all."""
    wanted = _wanted(ids, every=every)
    _report("queued again", wanted, _run(amqp_url, mongodb_url, lambda commands: commands.replay(wanted)))


@dead.command()
def drop(
    ids: Ids = None,
    *,
    every: All = False,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    amqp_url: AmqpUrl = None,
) -> None:
    """Delete dead letters for good, by id or all."""
    wanted = _wanted(ids, every=every)
    if not yes:
        typer.confirm(f"Delete {'all dead letters' if wanted is None else ', '.join(wanted)} for good?", abort=True)
    _report("dropped", wanted, _run(amqp_url, None, lambda commands: commands.drop(wanted)))


def _wanted(ids: list[str] | None, *, every: bool) -> Sequence[str] | None:
    """Return the given ids; `None` means all."""
    if every == bool(ids):
        raise typer.BadParameter("give ids, or --all")
    return ids or None


def _report(what: str, wanted: Sequence[str] | None, done: Sequence[Done]) -> None:
    """Print a line for each letter; exit with status 1 if one was refused or missing."""
    for letter, refused in done:
        outcome = what if refused is None else f"refused: {refused}"
        typer.echo(f"{letter.id} ({letter.kind}): {outcome}", err=refused is not None)
    missing = sorted(set(wanted or ()) - {each.letter.id for each in done})
    for each in missing:
        typer.echo(f"headrace: no dead letter {each}", err=True)
    if not done and wanted is None:
        typer.echo("no dead letters")
    if missing or any(each.refused is not None for each in done):
        raise typer.Exit(1)


def _fail(line: str) -> None:
    typer.echo(f"headrace: {line}", err=True)
    raise typer.Exit(1)


def _run(
    amqp_url: str | None, mongodb_url: str | None, work: Callable[[DeadLetterCommands], Awaitable[ResultT]]
) -> ResultT:
    """Run `work` with a connection to the broker."""
    from auth_billing.settings import BillingSettings  # noqa: PLC0415
    from infra.cli.dead_letter_commands import open_dead_letters  # noqa: PLC0415
    from runtime import logging  # noqa: PLC0415

    logging.configure("dead", style="console", level="error")
    settings = environment.load(BillingSettings, amqp_url=amqp_url, mongodb_url=mongodb_url)
    home = environment.load(LauncherSettings).folder
    return run_command(open_dead_letters(home, settings.amqp_url, settings.mongodb_url), work)
