"""Starts an inference worker: `python -m inference_worker` loads one model and answers its jobs until it is stopped."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from inference_worker.engine import engine_main
from inference_worker.errors import EngineDied, EngineStartFailed, ModelError
from inference_worker.model_files.model_source import ModelSource, resolve
from inference_worker.model_files.pipeline_folder import check_pipeline
from inference_worker.settings import WorkerSettings
from inference_worker.tokenizer.tokenizer_files import read_text_files
from inference_worker.worker.embedding.handler import EmbeddingHandler
from inference_worker.worker.embedding.processor import EmbeddingProcessor
from inference_worker.worker.engine_process import ProcessEngine
from inference_worker.worker.generation_handler import GenerationHandler
from inference_worker.worker.images.handler import ImageHandler
from inference_worker.worker.job_handler import HandlerFactory
from inference_worker.worker.metrics import WorkerMetrics
from inference_worker.worker.scoring.handler import ScoringHandler
from inference_worker.worker.scoring.processor import ScoringProcessor
from inference_worker.worker.search.handler import SearchHandler
from inference_worker.worker.text.processor import TextProcessor
from inference_worker.worker.vision.processor import VisionTextProcessor
from inference_worker.worker.worker import Worker
from router.bus import Bus
from router.errors import BrokerRefused, BrokerUnavailable
from router.messages import Task
from router.producer.child_jobs import ChildJobs
from router.producer.metrics import ProducerMetrics
from router.rabbitmq_bus import rabbitmq_bus
from router.topology import check_model_name
from router.transport.base import Transport
from runtime import lifecycle, logging
from runtime.lifecycle import StartupError
from runtime.ops_server import OpsServer

MAX_VISION_SEQUENCES = 8
"""Most jobs of a model that reads images: each holds the arrays of its images, and they take turns in any case."""
MAX_UNREAD_BYTES = 4 * 1024 * 1024
"""Most bytes of unread replies of one child job; the worker reads scores as they come."""
NO_VERIFIER_TIMEOUT = 30.0
"""Seconds without a live worker of the verifier after which a silent child job fails."""


async def serve(
    settings: WorkerSettings,
    stop: asyncio.Event,
    *,
    transport: Transport | None = None,
    hand_over: asyncio.Event | None = None,
) -> None:
    """Run an inference worker in this event loop: load one model and answer its jobs until `stop` is set, then drain.

    Setting `hand_over` ends the drain at once: the running jobs go to other workers.

    `transport` must not be started yet; the default is RabbitMQ at `settings.amqp_url`.

    Raises:
        StartupError: the broker, the model, enough memory or the metrics port is not available.
        EngineDied: the engine crashed too often to be restarted again.
        BrokerRefused: the platform's exchanges do not exist yet, or this worker has no rights.
    """
    source, text = await asyncio.to_thread(_read_model, settings)
    if source.task is Task.IMAGE:
        settings = settings.model_copy(update={"max_num_seqs": 1})  # other jobs are better off at other workers
    if source.reads_images:
        settings = settings.model_copy(update={"max_num_seqs": min(settings.max_num_seqs, MAX_VISION_SEQUENCES)})
    model = settings.served_model_name or _default_name(source)
    bus = Bus(transport) if transport else rabbitmq_bus(settings.amqp_url, settings.id, settings.control_secret)
    registry = CollectorRegistry()
    engine = ProcessEngine.alone(settings.engine(), target=_engine_target(settings))
    metrics = WorkerMetrics(registry, model)
    bus.on_control_rejected(metrics.control_refused)
    children = _child_jobs(bus, settings, registry) if settings.search and isinstance(text, TextProcessor) else None
    worker = Worker(bus, engine, _jobs_of(text, children), settings, metrics, model=model, hand_over=hand_over)
    ops = OpsServer(registry, settings.ops_host, settings.ops_port, status=worker.status)
    await ops.start()
    try:
        if isinstance(text, TextProcessor):
            await asyncio.to_thread(text.warm_up)
        await bus.start(declares_platform=False)
        async with _running(children, stop):
            await worker.run(stop)
    except BrokerUnavailable as error:
        raise StartupError(f"cannot reach the broker: {error}") from error
    except EngineStartFailed as error:
        raise StartupError(f"the engine cannot start: {error}") from error
    finally:
        await ops.stop()
        await bus.close()
        if text is not None:
            text.close()


def _engine_target(settings: WorkerSettings) -> engine_main.Target:
    return partial(
        engine_main.run, process=f"{settings.id}/engine", log_style=settings.log_style, log_level=settings.log_level
    )


ModelText = TextProcessor | EmbeddingProcessor | ScoringProcessor | None
"""Text side of a model; an image model has none, because its pipeline reads the prompts."""


def _child_jobs(bus: Bus, settings: WorkerSettings, registry: CollectorRegistry) -> ChildJobs:
    """Return what opens the child jobs of searches, with a reply inbox of its own after each start of the process."""
    return ChildJobs(
        bus,
        f"{settings.id}-{uuid.uuid4().hex[:12]}",
        ProducerMetrics(registry),
        no_worker_timeout=NO_VERIFIER_TIMEOUT,
        max_unread_bytes=MAX_UNREAD_BYTES,
    )


@asynccontextmanager
async def _running(children: ChildJobs | None, stop: asyncio.Event) -> AsyncIterator[None]:
    """Follow child jobs, if there can be any; set `stop` and raise the error at the end if their reply inbox fails."""
    if children is None:
        yield
        return
    await children.open()
    following = asyncio.create_task(children.run())
    following.add_done_callback(lambda _: stop.set())
    try:
        yield
    finally:
        await children.close()
    await following


def _jobs_of(text: ModelText, children: ChildJobs | None) -> HandlerFactory:
    match text:
        case None:
            return ImageHandler
        case EmbeddingProcessor():
            return partial(EmbeddingHandler, text)
        case ScoringProcessor():
            return partial(ScoringHandler, text)
        case TextProcessor() if children is not None:
            return partial(SearchHandler, text, children)
        case TextProcessor():
            return partial(GenerationHandler, text)


def _read_model(settings: WorkerSettings) -> tuple[ModelSource, ModelText]:
    """Locate the model and load its text side."""
    try:
        source = resolve(settings.model, step_tag=settings.step_tag)
        if source.task is Task.IMAGE:
            check_pipeline(source.path)
            return source, None
        if source.task is Task.EMBED:
            return source, EmbeddingProcessor.of(source.path)
        if source.task is Task.SCORE:
            return source, ScoringProcessor.of(source.path, settings.step_tag)
        if source.reads_images:
            return source, VisionTextProcessor.load(source.path)
        return source, TextProcessor.of(read_text_files(source.path))
    except ModelError as error:
        raise StartupError(f"cannot serve the model: {error}") from error


def _default_name(source: ModelSource) -> str:
    try:
        return check_model_name(source.served_name)
    except ValueError as error:
        raise StartupError(f"{error}; set HEADRACE_SERVED_MODEL_NAME") from error


async def run(settings: WorkerSettings) -> None:
    """Run the worker process until SIGTERM or SIGINT, then drain; a second signal hands its jobs to other workers."""
    logging.configure(settings.id, style=settings.log_style, level=settings.log_level)
    stop, hand_over = asyncio.Event(), asyncio.Event()
    lifecycle.stop_on_signals(stop, again=hand_over.set)
    try:
        await serve(settings, stop, hand_over=hand_over)
    except (EngineDied, BrokerRefused) as error:
        # Unlike after a StartupError, a supervisor such as systemd should restart the process: the broker refuses a
        # worker before a gateway has declared the platform's exchanges.
        print(f"headrace: {error}", file=sys.stderr, flush=True)
        raise SystemExit(1) from error


def main() -> None:
    """Read the settings from the environment and run the worker process until it is stopped."""
    try:
        settings = WorkerSettings()
    except ValidationError as error:
        first = error.errors()[0]
        name = "_".join(["HEADRACE", *map(str, first["loc"])]).upper()
        lifecycle.exit_cannot_start(StartupError(f"{name}: {first['msg']}"))
    with suppress(KeyboardInterrupt):
        lifecycle.run(run(settings))


if __name__ == "__main__":
    main()
