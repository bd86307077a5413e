"""Runs the assistant process: one job consumer for each assistant in the catalogue, on a shared broker connection."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import cache
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from assistant import catalogue, tool_set
from assistant.abilities import Abilities
from assistant.catalogue import Catalogue
from assistant.mcp.servers import open_servers
from assistant.metrics import AssistantMetrics
from assistant.routing.classifier import ClassifierRouter, ToolClassifier
from assistant.routing.embedding_router import EmbeddingRouter
from assistant.routing.labelled_prompts import LabelledPrompt, read_prompts
from assistant.routing.router import Router
from assistant.routing.rule_rewriter import stand_alone
from assistant.settings import AssistantSettings
from assistant.tools.image import ImageServices
from assistant.tools.unit_prices import UnitPrices
from assistant.worker import AssistantWorker
from auth_billing.prices.price_book import PriceBook
from auth_billing.store.connection import StoreConnection
from auth_billing.store.prices import MongoPriceStore
from router.bus import Bus
from router.errors import BrokerUnavailable
from router.producer.child_jobs import ChildJobs
from router.producer.metrics import ProducerMetrics
from router.rabbitmq_bus import rabbitmq_bus
from router.timings import DEFAULT_TIMINGS, Timings
from router.transport.base import Transport
from runtime import lifecycle, logging
from runtime.lifecycle import StartupError
from runtime.ops_server import OpsServer
from stored_objects.services import stored_objects
from stored_objects.settings import BlobSettings

MAX_UNREAD_BYTES = 4 * 1024 * 1024
"""Most bytes of unread replies of one child job; the assistant reads them as they come."""


async def serve(
    settings: AssistantSettings,
    stop: asyncio.Event,
    *,
    transport: Transport | None = None,
    hand_over: asyncio.Event | None = None,
    timings: Timings = DEFAULT_TIMINGS,
    images: ImageServices | None = None,
) -> None:
    """Answer the jobs of all assistants in the catalogue until `stop` is set, then drain.

    Setting `hand_over` ends the drain at once: the running jobs go to other assistants.

    `transport` must not be started yet; the default is RabbitMQ at `settings.amqp_url`. Without `images` no tool draws.

    Raises:
        StartupError: the catalogue, an API key, the broker or the metrics port is not available.
    """
    path = settings.assistant_config
    models = catalogue.DEFAULT if path is None else catalogue.read(path)
    weather_key = catalogue.weather_key(models, os.environ)
    mcp_secrets = catalogue.mcp_secrets(models, os.environ)
    registry = CollectorRegistry()
    metrics = AssistantMetrics(registry)
    bus = (
        Bus(transport) if transport else rabbitmq_bus(settings.amqp_url, settings.assistant_id, settings.control_secret)
    )
    bus.on_control_rejected(metrics.control_refused)
    children = ChildJobs(
        bus,
        f"{settings.assistant_id}-{uuid.uuid4().hex[:12]}",
        ProducerMetrics(registry),
        no_worker_timeout=settings.no_worker_timeout,
        max_unread_bytes=MAX_UNREAD_BYTES,
        timings=timings,
    )
    prompts = read_prompts()
    classifier = await asyncio.to_thread(_classifier, models, prompts)
    embedding_router = _embedding_routers(classifier, prompts)
    async with AsyncExitStack() as opened:
        toolbox = await opened.enter_async_context(tool_set.open_tools(models.tools, weather_key, children, images))
        await opened.enter_async_context(open_servers(models.mcp, mcp_secrets, toolbox))
        workers = {}
        for number, (model, spec) in enumerate(models.models.items(), start=1):
            abilities = Abilities(
                f"{settings.assistant_id}-{number}",
                spec,
                None if classifier is None else ClassifierRouter(classifier),
                toolbox,
                children,
                models.models.keys(),
                patience=settings.no_worker_timeout,
                embedding_router=embedding_router,
                prices=None if images is None else images.prices,
            )
            workers[model] = AssistantWorker(
                bus, model, abilities, metrics, drain_grace=settings.drain_grace, hand_over=hand_over, timings=timings
            )

        def status() -> dict[str, Any]:
            return _summary({name: worker.status() for name, worker in workers.items()})

        ops = OpsServer(registry, settings.ops_host, settings.ops_port, status)
        await ops.start()
        opened.push_async_callback(ops.stop)
        opened.push_async_callback(bus.close)
        try:
            await bus.start(declares_platform=False)
            await children.open()
            await _run(children, list(workers.values()), stop)
        except* BrokerUnavailable as error:
            raise StartupError(f"cannot reach the broker: {error.exceptions[0]}") from error


async def _run(children: ChildJobs, workers: list[AssistantWorker], stop: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as group:
        following = group.create_task(children.run())
        async with asyncio.TaskGroup() as consuming:
            for worker in workers:
                consuming.create_task(worker.run(stop))
        await children.close()
        following.cancel()


def _classifier(models: Catalogue, prompts: Sequence[LabelledPrompt]) -> ToolClassifier | None:
    """Return the classifier of assistants that choose by one, trained in half a second; `None`: there are none."""
    if all(spec.routing.way != "classifier" for spec in models.models.values()):
        return None
    return ToolClassifier(prompts, stand_alone)


def _embedding_routers(
    classifier: ToolClassifier | None, prompts: Sequence[LabelledPrompt]
) -> Callable[[str], Router] | None:
    """Return what returns the router with an embedding model, one for each model; `None`: there is no classifier."""
    if classifier is None:
        return None
    return cache(lambda model: EmbeddingRouter(classifier, model, prompts, stand_alone))


def _summary(models: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the status over all models, with a worker's fields, and that of each model."""
    each = models.values()
    return {
        "model": ", ".join(models),
        "device": "assistant",
        "state": "ready" if any(model["state"] == "ready" for model in each) else "draining",
        **{name: sum(model[name] for model in each) for name in ("running", "waiting", "tokens_per_second")},
        "models": models,
    }


def image_services(blobs: BlobSettings, connection: StoreConnection, home: Path) -> ImageServices:
    """Return what the image tool needs to store images and read prices; the caller must close its `objects`.

    Raises:
        StartupError: a setting of the blobs is wrong.
    """
    objects = stored_objects(blobs, connection, home, CollectorRegistry())
    return ImageServices(objects, UnitPrices(PriceBook(MongoPriceStore(connection))))


async def run(settings: AssistantSettings, blobs: BlobSettings, home: Path) -> None:
    """Run the assistant until SIGTERM or SIGINT, then drain; a second signal hands its jobs to other assistants.

    Images are stored as `blobs` says, by default in a folder of `home`, if there is a store for their documents.
    """
    logging.configure(settings.assistant_id, style=settings.log_style, level=settings.log_level)
    stop, hand_over = asyncio.Event(), asyncio.Event()
    lifecycle.stop_on_signals(stop, again=hand_over.set)
    with ExitStack() as opened:
        images = None
        if settings.mongodb_url:
            connection = StoreConnection(settings.mongodb_url)
            opened.callback(connection.close)
            images = image_services(blobs, connection, home)
            opened.callback(images.objects.close)
        await serve(settings, stop, hand_over=hand_over, images=images)
