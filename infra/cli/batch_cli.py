"""Commands `headrace batch ...` (create, list, status, wait, cancel, download): options and output.

Each command imports its implementation (`batch_commands.py`) only when it is run, so that others start fast.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from infra.cli.store_command import console, print_table
from infra.home import environment
from infra.home.settings import LauncherSettings

if TYPE_CHECKING:
    from infra.cli.batch_commands import Batch, BatchCommands

PANEL = "Batches"

batch = typer.Typer(help="Batches of requests, at a running gateway (docs/batches.md).", no_args_is_help=True)

BatchId = Annotated[str, typer.Argument(help="Id of the batch (batch_...), or its beginning if only one begins so.")]


def register(app: typer.Typer) -> None:
    """Add the commands `batch ...` to `app`, the `headrace` command line."""
    app.add_typer(batch, name="batch", rich_help_panel=PANEL)


@batch.command()
def create(
    file: Annotated[Path, typer.Argument(help="JSON lines of `custom_id`, `method`, `url` and `body`.")],
    *,
    endpoint: Annotated[
        str | None, typer.Option(help="Endpoint of all lines; by default the first one's.", show_default=False)
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show the progress until the batch has ended.")] = False,
) -> None:
    """Upload a file of requests and run it as a batch; print the batch's id."""
    commands = _commands()
    created = commands.create(file, endpoint)
    console.print(created["id"])
    if wait:
        _show_progress(commands, created["id"])


@batch.command("list")
def list_batches() -> None:
    """List the project's newest batches."""
    table = Table("id", "file", "endpoint", "created", "status", "done", "failed")
    for each in _commands().latest():
        created = datetime.fromtimestamp(each["created_at"]).astimezone().strftime("%Y-%m-%d %H:%M")
        failed = str(each["request_counts"]["failed"])
        table.add_row(each["id"], _file_name(each), each["endpoint"], created, each["status"], _progress(each), failed)
    print_table(table)


@batch.command()
def status(id: BatchId) -> None:
    """Show one batch: its state, counts, files and errors."""
    _show(_commands().find(id))


@batch.command()
def wait(id: BatchId) -> None:
    """Show the progress of a batch until it has ended."""
    _show_progress(_commands(), id)


@batch.command()
def cancel(id: BatchId) -> None:
    """Cancel a batch: running lines end, others are not requested."""
    _show(_commands().cancel(id))


@batch.command()
def download(
    id: BatchId,
    output: Annotated[Path, typer.Argument(help="New file for the answers.")],
    *,
    errors: Annotated[Path | None, typer.Option(help="New file for the lines that failed.", show_default=False)] = None,
) -> None:
    """Write the results of a batch that has ended to files."""
    commands = _commands()
    found = commands.ended(id)
    for file_id, path in ((found["output_file_id"], output), (found["error_file_id"], errors)):
        if file_id is not None and path is not None:
            commands.download(file_id, path)
            console.print(f"{path} written")
    _show(found)


def _commands() -> BatchCommands:
    from infra.cli.batch_commands import BatchCommands  # noqa: PLC0415

    return BatchCommands.of(environment.load(LauncherSettings).folder)


def _show_progress(commands: BatchCommands, id: str) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("validating", total=None)
        for seen in commands.progress(id):
            counts = seen["request_counts"]
            done, total = counts["completed"] + counts["failed"], counts["total"] or None
            description = f"{_file_name(seen)} {seen['status']}"
            progress.update(task, description=description, completed=done, total=total)
    _show(seen)


def _file_name(batch: Batch) -> str:
    """Return the name of a batch's input file as text for the console; its id if the gateway does not name it."""
    return escape(batch.get("input_file_name") or batch["input_file_id"])


def _progress(batch: Batch) -> str:
    """Return how many lines of a batch are done, as `5/8 (62%)`; `-` before they are counted."""
    counts = batch["request_counts"]
    done, total = counts["completed"] + counts["failed"], counts["total"]
    return f"{done}/{total} ({done * 100 // total}%)" if total else "-"


def _show(batch: Batch) -> None:
    """Print one batch; exit with status 1 if it failed."""
    counts = batch["request_counts"]
    console.print(f"{batch['id']}: {batch['status']}")
    console.print(f"{_file_name(batch)} for {batch['endpoint']}")
    console.print(f"{counts['total']} lines, {counts['completed']} completed, {counts['failed']} failed")
    for name in ("output_file_id", "error_file_id"):
        if batch[name] is not None:
            console.print(f"{name.replace('_', ' ').removesuffix(' id')}: {batch[name]}")
    for error in (batch["errors"] or {"data": []})["data"]:
        where = "" if error["line"] is None else f"line {error['line']}: "
        console.print(f"{where}{error['message']} ({error['code']})")
    if batch["status"] == "failed":
        raise typer.Exit(1)
