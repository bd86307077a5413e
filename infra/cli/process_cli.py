"""Commands that run one process of the platform: `headrace gateway`, `worker`, `proxy`, `assistant`, `billing`.

Each command imports its implementation only when it is run, so that others start fast.
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

from infra.cli.process_options import Aliases, Device, Model, Port
from infra.home import environment
from infra.home.settings import LauncherSettings
from runtime import lifecycle
from runtime.lifecycle import stop_on_signals

PANEL = "One process of the platform"

AmqpUrl = Annotated[
    str | None,
    typer.Option("--amqp-url", help="RabbitMQ: amqp://user:password@host:port/vhost.", show_default=False),
]
MongoUrl = Annotated[str | None, typer.Option("--mongodb-url", help="MongoDB.", show_default=False)]
OpsPort = Annotated[
    int | None, typer.Option("--ops-port", help="Port of /metrics, /healthz, /status.", show_default=False)
]
Id = Annotated[
    str | None, typer.Option("--id", help="Unique name of the process (host name and its pid).", show_default=False)
]


def register(app: typer.Typer) -> None:
    """Add the command of each process to `app`, the `headrace` command line."""
    for command in (gateway, worker, proxy, assistant, billing):
        app.command(rich_help_panel=PANEL)(command)


def _unique_name(kind: str) -> str:
    """Return the default id of a process: `kind`, host name and process id, e.g. `worker-4f2a-731`.

    Several workers of one machine need different ids: the last heartbeat of an id replaces the others.
    """
    return f"{kind}-{socket.gethostname().replace('.', '-')}-{os.getpid()}"


def _named(kind: str, field: str, given: str | None) -> str | None:
    """Return the given id, else one from host name and process id; `None` if the environment has one."""
    return given or (None if environment.variable(field) in os.environ else _unique_name(kind))


def _run(settings: BaseSettings, process: str, main: Callable[[Any, asyncio.Event], Awaitable[None]]) -> None:
    """Run a process's main coroutine until SIGTERM or Ctrl-C."""
    from runtime import logging  # noqa: PLC0415

    logging.configure(process, style=getattr(settings, "log_style"), level=getattr(settings, "log_level"))  # noqa: B009

    async def run() -> None:
        stop = asyncio.Event()
        stop_on_signals(stop)
        await main(settings, stop)

    lifecycle.run(run())


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
        str | None, typer.Option(help="auto, 16, or 8: the fastest with quantised weights (auto).", show_default=False)
    ] = None,
    kv_cache_dtype: Annotated[
        str | None, typer.Option(help="auto, float32, bfloat16, float16 or int8 (auto).", show_default=False)
    ] = None,
    speculation: Annotated[str | None, typer.Option(help="off, ngram or auto (auto).", show_default=False)] = None,
    draft_model: Annotated[
        str | None, typer.Option(help="Model that drafts tokens, or a number of first layers.", show_default=False)
    ] = None,
    max_model_len: Annotated[int | None, typer.Option(help="Context length in tokens.", show_default=False)] = None,
    max_num_seqs: Annotated[
        int | None, typer.Option(help="Maximum sequences per batch (64).", show_default=False)
    ] = None,
    kv_cache_memory: Annotated[str | None, typer.Option(help="For example 2GiB.", show_default=False)] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads of the engine.", show_default=False)] = None,
    instructions: Annotated[
        str | None, typer.Option(help="Instruction set of the CPU kernels: auto, avx2, ... (auto).", show_default=False)
    ] = None,
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
        draft_model=draft_model,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        kv_cache_memory=kv_cache_memory,
        threads=threads,
        instructions=instructions,
        image_sizes=image_sizes,
        image_steps=image_steps,
        image_guidance=image_guidance,
        step_tag=step_tag,
        amqp_url=amqp_url,
        ops_port=ops_port,
    )
    lifecycle.run(run_worker(settings))


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


def billing(amqp_url: AmqpUrl = None, mongodb_url: MongoUrl = None, ops_port: OpsPort = None) -> None:
    """Run billing: settles usage, and closes dead-lettered jobs."""
    from auth_billing.__main__ import serve as serve_billing  # noqa: PLC0415
    from auth_billing.settings import BillingSettings  # noqa: PLC0415

    settings = environment.load(BillingSettings, amqp_url=amqp_url, mongodb_url=mongodb_url, ops_port=ops_port)
    _run(settings, "billing", serve_billing)
