"""Runs the proxy process: one worker per model of the catalogue, on one connection to the broker."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from proxy import catalogue
from proxy.metrics import ProxyCollectors, ProxyMetrics
from proxy.settings import ProxySettings
from proxy.upstream import Upstream
from proxy.worker import ProxyWorker
from router.bus import Bus
from router.errors import BrokerUnavailable
from router.rabbitmq_bus import rabbitmq_bus
from router.transport.base import Transport
from runtime import lifecycle, logging
from runtime.lifecycle import StartupError
from runtime.ops_server import OpsServer


async def serve(
    settings: ProxySettings,
    stop: asyncio.Event,
    *,
    transport: Transport | None = None,
    hand_over: asyncio.Event | None = None,
) -> None:
    """Forward the jobs of all models in the catalogue until `stop` is set, then drain.

    Setting `hand_over` ends the drain at once: the running jobs go to other workers.

    `transport` must not be started yet; the default is RabbitMQ at `settings.amqp_url`.

    Raises:
        StartupError: the catalogue, an API key, the broker or the metrics port is not available.
    """
    models = catalogue.read(settings.proxy_config)
    keys = catalogue.api_keys(models, os.environ)
    registry = CollectorRegistry()
    collectors = ProxyCollectors(registry)
    bus = Bus(transport) if transport else rabbitmq_bus(settings.amqp_url, settings.proxy_id, settings.control_secret)
    bus.on_control_rejected(collectors.control_refused)
    async with AsyncExitStack() as opened:
        upstreams = {name: Upstream(name, spec, keys.get(name)) for name, spec in models.upstreams.items()}
        for name, upstream in upstreams.items():
            opened.push_async_callback(upstream.close)
            collectors.circuit_open.labels(name).set_function(partial(_circuit_open, upstream))
        workers = {
            model: ProxyWorker(
                bus,
                model,
                spec,
                upstreams,
                ProxyMetrics(collectors, model),
                worker=f"{settings.proxy_id}-{number}",
                drain_grace=settings.drain_grace,
                hand_over=hand_over,
            )
            for number, (model, spec) in enumerate(models.models.items(), start=1)
        }

        def status() -> dict[str, Any]:
            return _summary({name: worker.status() for name, worker in workers.items()})

        ops = OpsServer(registry, settings.ops_host, settings.ops_port, status)
        await ops.start()
        opened.push_async_callback(ops.stop)
        opened.push_async_callback(bus.close)
        try:
            await bus.start(declares_platform=False)
            await _run(workers, stop)
        except* BrokerUnavailable as error:
            raise StartupError(f"cannot reach the broker: {error.exceptions[0]}") from error


async def _run(workers: dict[str, ProxyWorker], stop: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as group:
        for worker in workers.values():
            group.create_task(worker.run(stop))


def _circuit_open(upstream: Upstream) -> float:
    return float(upstream.breaker.is_open)


def _summary(models: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the status over all models, with a worker's fields, and that of each model."""
    each = models.values()
    return {
        "model": ", ".join(models),
        "device": "upstream",
        "state": "ready" if any(model["state"] == "ready" for model in each) else "draining",
        **{name: sum(model[name] for model in each) for name in ("running", "waiting", "tokens_per_second")},
        "models": models,
    }


async def run(settings: ProxySettings) -> None:
    """Run the proxy process until SIGTERM or SIGINT, then drain; a second signal hands its jobs to other workers."""
    logging.configure(settings.proxy_id, style=settings.log_style, level=settings.log_level)
    stop, hand_over = asyncio.Event(), asyncio.Event()
    lifecycle.stop_on_signals(stop, again=hand_over.set)
    await serve(settings, stop, hand_over=hand_over)
