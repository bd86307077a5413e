"""Command line `headrace`: the launchers `serve` and `up`, a running platform, and the commands of other modules.

Each command imports its implementation only when it is run, so that `headrace ps` does not import PyTorch. Settings
come from options, else from `HEADRACE_...` variables (docs/configuration.md).
"""

from __future__ import annotations

import os
from typing import Annotated

import typer
from pydantic_settings import BaseSettings

from infra.cli import (
    batch_cli,
    broker_cli,
    dead_letter_cli,
    installation_cli,
    keys_cli,
    model_access_cli,
    money_cli,
    people_cli,
    process_cli,
    quantize_cli,
)
from infra.cli.process_options import Aliases, Device, Model, Port
from infra.cli.store_command import console, print_table
from infra.home import environment
from infra.home.home import lock_holder, stop_launcher
from infra.home.settings import LauncherSettings
from infra.launcher.command_socket import Command, send_command
from infra.rabbitmq.settings import BrokerSettings
from runtime import lifecycle
from runtime.lifecycle import StartupError, exit_cannot_start

app = typer.Typer(
    name="headrace",
    help="A queue-backed inference platform for open models. Start with `headrace serve`.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

EVERYTHING = "Everything at once"
RUNNING_PLATFORM = "A running platform"

Name = Annotated[str, typer.Argument(help="Process name as in `headrace ps`: gateway-1, worker-2, rabbitmq, ...")]


def settings_classes() -> list[type[BaseSettings]]:
    """Return the settings classes of all processes; their fields are the `HEADRACE_...` environment variables."""
    from assistant.settings import AssistantSettings  # noqa: PLC0415
    from auth_billing.settings import BillingSettings  # noqa: PLC0415
    from chat_ui.settings import ChatSettings, OidcSettings  # noqa: PLC0415
    from gateway.settings import GatewaySettings  # noqa: PLC0415
    from inference_worker.settings import WorkerSettings  # noqa: PLC0415
    from proxy.settings import ProxySettings  # noqa: PLC0415
    from stored_objects.settings import BlobSettings, DocumentSettings  # noqa: PLC0415

    return [
        LauncherSettings,
        GatewaySettings,
        ChatSettings,
        OidcSettings,
        BlobSettings,
        DocumentSettings,
        WorkerSettings,
        ProxySettings,
        AssistantSettings,
        BillingSettings,
        BrokerSettings,
    ]


def known_variables() -> set[str]:
    """Return the names of all `HEADRACE_...` environment variables that a process reads as settings."""
    return environment.variables(settings_classes())


@app.callback()
def before_every_command() -> None:
    """Raise `StartupError`, before any command runs, if an unknown `HEADRACE_...` environment variable is set."""
    environment.check_names(os.environ, known_variables())


def _print_line(line: str) -> None:
    console.print(line, markup=False, soft_wrap=True)


# --- Everything at once ---------------------------------------------------------------------------


@app.command(rich_help_panel=EVERYTHING)
def serve(
    port: Port = None,
    model: Model = None,
    device: Device = None,
    model_aliases: Aliases = None,
) -> None:
    """Run everything in one process, for a laptop: API, chat, accounts and one worker."""
    settings = environment.load(LauncherSettings, port=port, model=model, device=device, model_aliases=model_aliases)
    from infra.launcher.all_in_one import serve_all_in_one  # noqa: PLC0415

    lifecycle.run(serve_all_in_one(settings, _print_line))


@app.command(rich_help_panel=EVERYTHING)
def up(
    workers: Annotated[
        int | None, typer.Option(help="How many workers (2); scales a running platform.", min=1, max=64)
    ] = None,
    port: Port = None,
    model: Model = None,
    device: Device = None,
    model_aliases: Aliases = None,
) -> None:
    """Run the platform as processes on this machine, as in production, with a private RabbitMQ."""
    settings = environment.load(
        LauncherSettings, workers=workers, port=port, model=model, device=device, model_aliases=model_aliases
    )
    from infra.launcher.banner import print_platform_banner  # noqa: PLC0415
    from infra.launcher.platform_launcher import PlatformLauncher, run_or_scale  # noqa: PLC0415

    run_or_scale(PlatformLauncher(settings, _print_line, print_platform_banner), settings, workers, _print_line)


# --- A running platform ---------------------------------------------------------------------------


@app.command(rich_help_panel=RUNNING_PLATFORM)
def ps() -> None:
    """List the platform's processes on this machine and the current work of each."""
    from infra.cli.process_table import rows, table  # noqa: PLC0415

    home = environment.load(LauncherSettings).folder
    shown = rows(home)
    if not shown:
        _print_line(f"nothing runs in {home.path}")
        return
    print_table(table(shown))
    if lock_holder(home) is None:
        _print_line("their launcher is gone: `headrace up` cleans up and starts again")


def _send(command: Command) -> None:
    _print_line(send_command(environment.load(LauncherSettings).folder, command))


@app.command(rich_help_panel=RUNNING_PLATFORM)
def stop(
    name: Annotated[str | None, typer.Argument(help="Name of a process; by default the whole platform.")] = None,
) -> None:
    """Stop one process of the platform on this machine (a worker drains first), or the whole platform."""
    if name is not None:
        _send(Command("stop", name))
        return
    _print_line(stop_launcher(environment.load(LauncherSettings).folder))


@app.command(rich_help_panel=RUNNING_PLATFORM)
def start(name: Name) -> None:
    """Start a stopped process of the platform that runs on this machine."""
    _send(Command("start", name))


@app.command(rich_help_panel=RUNNING_PLATFORM)
def restart(name: Name) -> None:
    """Stop a process of the platform on this machine gracefully, and start it again."""
    _send(Command("restart", name))


process_cli.register(app)
quantize_cli.register(app)
money_cli.register(app)
installation_cli.register(app)
keys_cli.register(app)
people_cli.register(app)
model_access_cli.register(app)
dead_letter_cli.register(app)
broker_cli.register(app)
batch_cli.register(app)


def main() -> None:
    """Entry point of `headrace`: run the command line.

    Print a `StartupError` in one line and exit with an error status.
    """
    try:
        app()
    except StartupError as error:
        exit_cannot_start(error)
