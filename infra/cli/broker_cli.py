"""Command `headrace rabbitmq-definitions`: writes the definitions file for a RabbitMQ that Headrace does not start."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from infra.cli.store_command import console
from infra.home import environment
from infra.rabbitmq import definitions
from infra.rabbitmq.settings import BrokerSettings

PANEL = "A running platform"


def register(app: typer.Typer) -> None:
    """Add the command `rabbitmq-definitions` to `app`, the `headrace` command line."""
    app.command(rich_help_panel=PANEL)(rabbitmq_definitions)


def rabbitmq_definitions(
    output: Annotated[
        Path | None, typer.Option(help="Write to this file instead of standard output.", show_default=False)
    ] = None,
) -> None:
    """Print RabbitMQ's definitions: a user for each service, its permissions, and the platform's queues.

    RabbitMQ reads them at start-up (`load_definitions`) or by `rabbitmqctl import_definitions`. The passwords are those
    of the settings HEADRACE_RABBITMQ_..._PASSWORD; the file has their salted hashes.
    """
    text = json.dumps(definitions.render(environment.load(BrokerSettings).passwords()), indent=1) + "\n"
    if output is None:
        sys.stdout.write(text)
        return
    fresh = output.with_name(output.name + ".new")
    fresh.write_text(text)
    fresh.replace(output)  # RabbitMQ may be starting and reading it
    console.print(f"wrote {output}", markup=False, soft_wrap=True)
