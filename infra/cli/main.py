"""Command line `headrace`: starts each process of the platform and the launchers `serve` and `up`; operators' commands.

Each command imports its implementation only when it is run, so that `headrace ps` does not import PyTorch. Settings
come from options, else from `HEADRACE_...` variables (docs/configuration.md).
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

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
)
from infra.cli.store_command import console, print_table, run_with_accounts
from infra.home import environment
from infra.home.home import lock_holder, stop_launcher
from infra.home.settings import LauncherSettings
from infra.launcher.command_socket import Command, send_command
from infra.rabbitmq.settings import BrokerSettings
from runtime import lifecycle
from runtime.lifecycle import StartupError, exit_cannot_start, stop_on_signals

app = typer.Typer(
    name="headrace",
    help="A queue-backed inference platform for open models. Start with `headrace serve`.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

EVERYTHING, PROCESSES = "Everything at once", "One process of the platform"
LOOKING = "A running platform"

AmqpUrl = Annotated[
    str | None,
    typer.Option("--amqp-url", help="RabbitMQ: amqp://user:password@host:port/vhost.", show_default=False),
]
MongoUrl = Annotated[str | None, typer.Option("--mongodb-url", help="MongoDB.", show_default=False)]
OpsPort = Annotated[
    int | None, typer.Option("--ops-port", help="Port of /metrics, /healthz, /status.", show_default=False)
]
Port = Annotated[int | None, typer.Option("--port", help="Port of the API and the chat (8000).", show_default=False)]
Model = Annotated[
    str | None,
    typer.Option("--model", help="A Hugging Face id, a folder with safetensors, or a .gguf.", show_default=False),
]
Device = Annotated[str | None, typer.Option("--device", help="cpu, cuda or cuda:N (cpu).", show_default=False)]
Aliases = Annotated[
    str | None, typer.Option("--model-aliases", help="TOML file of other names for models.", show_default=False)
]
Id = Annotated[str | None, typer.Option("--id", help="Name of the process (from the host).", show_default=False)]
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


@app.command(rich_help_panel=LOOKING)
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


@app.command(rich_help_panel=LOOKING)
def stop(
    name: Annotated[str | None, typer.Argument(help="Name of a process; by default the whole platform.")] = None,
) -> None:
    """Stop one process of the platform on this machine (a worker drains first), or the whole platform."""
    if name is not None:
        _send(Command("stop", name))
        return
    _print_line(stop_launcher(environment.load(LauncherSettings).folder))


@app.command(rich_help_panel=LOOKING)
def start(name: Name) -> None:
    """Start a stopped process of the platform that runs on this machine."""
    _send(Command("start", name))


@app.command(rich_help_panel=LOOKING)
def restart(name: Name) -> None:
    """Stop a process of the platform on this machine gracefully, and start it again."""
    _send(Command("restart", name))


# --- One process ----------------------------------------------------------------------------------


def unique_name(kind: str) -> str:
    """Return the default id of a process: `kind` and host name, e.g. `worker-4f2a`; unique per machine or container."""
    return f"{kind}-{socket.gethostname().replace('.', '-')}"


def _named(kind: str, field: str, given: str | None) -> str | None:
    """Return the given id, else one from the host name; `None` if the environment has one."""
    return given or (None if environment.variable(field) in os.environ else unique_name(kind))


def _run(settings: BaseSettings, process: str, main: Callable[[Any, asyncio.Event], Awaitable[None]]) -> None:
    """Run a process's main coroutine until SIGTERM or Ctrl-C."""
    from runtime import logging  # noqa: PLC0415

    logging.configure(process, style=getattr(settings, "log_style"), level=getattr(settings, "log_level"))  # noqa: B009

    async def run() -> None:
        stop = asyncio.Event()
        stop_on_signals(stop)
        await main(settings, stop)

    lifecycle.run(run())


@app.command(rich_help_panel=PROCESSES)
def gateway(
    *,
    id: Id = None,
    port: Port = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on (127.0.0.1).", show_default=False)] = None,
    model_aliases: Aliases = None,
    amqp_url: AmqpUrl = None,
    mongodb_url: MongoUrl = None,
    ops_port: OpsPort = None,
) -> None:
    """Run a gateway: the OpenAI-compatible API and the web chat."""
    from gateway.settings import GatewaySettings  # noqa: PLC0415
    from infra.web_app.app import serve_gateway  # noqa: PLC0415

    settings = environment.load(
        GatewaySettings,
        gateway_id=_named("gateway", "gateway_id", id),
        port=port,
        host=host,
        model_aliases=model_aliases,
        amqp_url=amqp_url,
        mongodb_url=mongodb_url,
        ops_port=ops_port,
    )
    _run(settings, settings.gateway_id, serve_gateway)


@app.command(rich_help_panel=PROCESSES)
def worker(
    *,
    model: Model = None,
    device: Device = None,
    id: Id = None,
    served_model_name: Annotated[str | None, typer.Option(help="Model name for clients.", show_default=False)] = None,
    verifier: Annotated[
        str | None, typer.Option(help="Reward model to serve too, for searches.", show_default=False)
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="auto, float32, bfloat16 or float16 (auto).", show_default=False)
    ] = None,
    quantization: Annotated[
        str | None, typer.Option(help="none, int8, int4 or auto (auto).", show_default=False)
    ] = None,
    activation_bits: Annotated[
        int | None, typer.Option(help="16, or 8: faster with quantised weights.", show_default=False)
    ] = None,
    kv_cache_dtype: Annotated[
        str | None, typer.Option(help="auto, float32, bfloat16, float16 or int8 (auto).", show_default=False)
    ] = None,
    speculation: Annotated[str | None, typer.Option(help="off, ngram or auto (auto).", show_default=False)] = None,
    max_model_len: Annotated[int | None, typer.Option(help="Context length in tokens.", show_default=False)] = None,
    max_num_seqs: Annotated[
        int | None, typer.Option(help="Maximum sequences per batch (64).", show_default=False)
    ] = None,
    kv_cache_memory: Annotated[str | None, typer.Option(help="For example 2GiB.", show_default=False)] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads of the engine.", show_default=False)] = None,
    image_sizes: Annotated[
        str | None, typer.Option(help="Sizes of images, the default first: 1024x1024,1024x768.", show_default=False)
    ] = None,
    image_steps: Annotated[int | None, typer.Option(help="Denoising steps of an image.", show_default=False)] = None,
    image_guidance: Annotated[float | None, typer.Option(help="Guidance scale of images.", show_default=False)] = None,
    step_tag: Annotated[
        str | None, typer.Option(help="Text after each step, for scores as Math-Shepherd's: ки.", show_default=False)
    ] = None,
    amqp_url: AmqpUrl = None,
    ops_port: OpsPort = None,
) -> None:
    """Run a worker: one model on one GPU or CPU, consuming jobs from its queue."""
    from inference_worker.__main__ import run as run_worker  # noqa: PLC0415
    from inference_worker.settings import WorkerSettings  # noqa: PLC0415

    settings = environment.load(
        WorkerSettings,
        model=model,
        device=device,
        id=_named("worker", "id", id),
        served_model_name=served_model_name,
        verifier=verifier,
        dtype=dtype,
        quantization=quantization,
        activation_bits=activation_bits,
        kv_cache_dtype=kv_cache_dtype,
        speculation=speculation,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        kv_cache_memory=kv_cache_memory,
        threads=threads,
        image_sizes=image_sizes,
        image_steps=image_steps,
        image_guidance=image_guidance,
        step_tag=step_tag,
        amqp_url=amqp_url,
        ops_port=ops_port,
    )
    lifecycle.run(run_worker(settings))


@app.command(rich_help_panel=PROCESSES)
def proxy(
    *,
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML file of models and upstreams.", show_default=False)
    ] = None,
    id: Id = None,
    amqp_url: AmqpUrl = None,
    ops_port: OpsPort = None,
) -> None:
    """Run a proxy: models of OpenAI-compatible providers, consuming jobs like a worker."""
    from proxy.server import run as run_proxy  # noqa: PLC0415
    from proxy.settings import ProxySettings  # noqa: PLC0415

    settings = environment.load(
        ProxySettings,
        proxy_config=config,
        proxy_id=_named("proxy", "proxy_id", id),
        amqp_url=amqp_url,
        ops_port=ops_port,
    )
    lifecycle.run(run_proxy(settings))


@app.command(rich_help_panel=PROCESSES)
def assistant(
    *,
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML file of assistants and tools.", show_default=False)
    ] = None,
    id: Id = None,
    amqp_url: AmqpUrl = None,
    ops_port: OpsPort = None,
) -> None:
    """Run an assistant: answers with tools and other models, consuming jobs like a worker."""
    from assistant.server import run as run_assistant  # noqa: PLC0415
    from assistant.settings import AssistantSettings  # noqa: PLC0415
    from stored_objects.settings import BlobSettings  # noqa: PLC0415

    home = environment.load(LauncherSettings).folder
    settings = environment.load(
        AssistantSettings,
        assistant_config=config,
        assistant_id=_named("assistant", "assistant_id", id),
        amqp_url=amqp_url,
        ops_port=ops_port,
    )
    lifecycle.run(run_assistant(settings, environment.load(BlobSettings), home.path))


@app.command(rich_help_panel=PROCESSES)
def billing(amqp_url: AmqpUrl = None, mongodb_url: MongoUrl = None, ops_port: OpsPort = None) -> None:
    """Run billing: settles usage, and closes dead-lettered jobs."""
    from auth_billing.__main__ import serve as serve_billing  # noqa: PLC0415
    from auth_billing.settings import BillingSettings  # noqa: PLC0415

    settings = environment.load(BillingSettings, amqp_url=amqp_url, mongodb_url=mongodb_url, ops_port=ops_port)
    _run(settings, "billing", serve_billing)


@app.command(rich_help_panel=PROCESSES)
def key(mongodb_url: MongoUrl = None) -> None:
    """Replace the development account's API key and print the new one."""
    _print_line(run_with_accounts(mongodb_url, lambda access: access.renew_development_key()))


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
