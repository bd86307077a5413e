"""Starts an inference worker: `python -m inference_worker` loads one model and answers its jobs until it is stopped."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from itertools import zip_longest
from typing import Any

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
from inference_worker.worker.engine_client import EngineClient
from inference_worker.worker.engine_process import EngineProcess, ProcessEngine
from inference_worker.worker.generation_handler import GenerationHandler
from inference_worker.worker.images.handler import ImageHandler
from inference_worker.worker.job_handler import HandlerFactory
from inference_worker.worker.metrics import WorkerMetrics, merged_registry
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
    transports: Sequence[Transport] = (),
    hand_over: asyncio.Event | None = None,
) -> None:
    """Run an inference worker in this event loop: load the model and answer its jobs until `stop` is set, then drain.

    With `settings.verifier` it serves two models, each on its own queue, by two engines in one process.

    Setting `hand_over` ends the drain at once: the running jobs go to other workers.

    `transports`, one for each model, must not be started yet; the default is RabbitMQ at `settings.amqp_url`.

    Raises:
        StartupError: the broker, the model, enough memory or the metrics port is not available.
        EngineDied: the engine crashed too often to be restarted again.
        BrokerRefused: the platform's exchanges do not exist yet, or this worker has no rights.
    """
    async with AsyncExitStack() as stack:
        models = []
        for each, transport in zip_longest(settings.models(), transports):
            models.append(await asyncio.to_thread(_ServedModel, each, transport))
            stack.push_async_callback(models[-1].close)
        if settings.verifier is not None:
            _check_pair(*models)
        workers = [
            model.worker(engine, hand_over) for model, engine in zip(models, _engines(settings, models), strict=True)
        ]
        registry = merged_registry([model.registry for model in models])
        ops = OpsServer(registry, settings.ops_host, settings.ops_port, status=partial(_status, *workers))
        await ops.start()
        stack.push_async_callback(ops.stop)
        try:
            async with AsyncExitStack() as connections:
                for model in models:
                    await connections.enter_async_context(model.connected(stop))
                await _run_workers(*workers, stop=stop)
        except BrokerUnavailable as error:
            raise StartupError(f"cannot reach the broker: {error}") from error
        except EngineStartFailed as error:
            raise StartupError(f"the engine cannot start: {error}") from error


class _ServedModel:
    """A model that the process serves, with its text side, its metrics and its connection to the broker."""

    def __init__(self, settings: WorkerSettings, transport: Transport | None) -> None:
        """Load the text side of the model, and prepare the connection.

        Raises:
            StartupError: the model can't be served.
        """
        source, self.text = _read_model(settings)
        if source.task is Task.IMAGE:
            settings = settings.model_copy(update={"max_num_seqs": 1})  # other jobs are better off at other workers
        if source.reads_images:
            settings = settings.model_copy(update={"max_num_seqs": min(settings.max_num_seqs, MAX_VISION_SEQUENCES)})
        self.settings = settings
        self.source = source
        self.registry = CollectorRegistry()
        self._name = settings.served_model_name or _default_name(source)
        self._bus = (
            Bus(transport) if transport else rabbitmq_bus(settings.amqp_url, settings.id, settings.control_secret)
        )
        searches = settings.search and isinstance(self.text, TextProcessor)
        self._children = _child_jobs(self._bus, settings, self.registry) if searches else None

    def worker(self, engine: EngineClient, hand_over: asyncio.Event | None) -> Worker:
        """Return the worker that answers the model's jobs by `engine`."""
        metrics = WorkerMetrics(self.registry, self._name)
        self._bus.on_control_rejected(metrics.control_refused)
        jobs = _jobs_of(self.text, self._children)
        return Worker(self._bus, engine, jobs, self.settings, metrics, model=self._name, hand_over=hand_over)

    @asynccontextmanager
    async def connected(self, stop: asyncio.Event) -> AsyncIterator[None]:
        """Connect to the broker, and follow child jobs while the context lasts; `stop` is set if that fails."""
        if isinstance(self.text, TextProcessor):
            await asyncio.to_thread(self.text.warm_up)
        await self._bus.start(declares_platform=False)
        async with _running(self._children, stop):
            yield

    async def close(self) -> None:
        """Disconnect from the broker, and end the processes of the text side."""
        await self._bus.close()
        if self.text is not None:
            self.text.close()


def _check_pair(generator: _ServedModel, verifier: _ServedModel) -> None:
    """Raise `StartupError` unless the two models can share a process as generator and verifier."""
    if type(generator.text) is not TextProcessor:
        raise StartupError("HEADRACE_VERIFIER: a model that generates text from text alone can have a verifier")
    if not isinstance(verifier.text, ScoringProcessor) or verifier.text.scores_pairs:
        raise StartupError("HEADRACE_VERIFIER: not a reward model that scores answers")
    if generator.settings.device != "cpu":
        raise StartupError("HEADRACE_VERIFIER: two models share the memory of one worker only on a CPU")


def _engines(settings: WorkerSettings, models: Sequence[_ServedModel]) -> Sequence[EngineClient]:
    """Return the engine of each model; the engines of two models are in one process."""
    if len(models) == 1:
        return [ProcessEngine.alone(models[0].settings.engine(), target=_engine_target(settings))]
    target = partial(engine_main.run_engines, **_process_options(settings))
    return EngineProcess([each.settings.engine() for each in models], target=target).engines


async def _run_workers(generator: Worker, verifier: Worker | None = None, *, stop: asyncio.Event) -> None:
    """Run the worker, or generator and verifier; both stop once either does, the verifier after the generator.

    Raises:
        EngineStartFailed, EngineDied, BrokerUnavailable: see `Worker.run`.
    """
    if verifier is None:
        await generator.run(stop)
        return
    generator_ended = asyncio.Event()

    async def generate() -> None:
        try:
            await generator.run(stop)
        finally:
            generator_ended.set()  # until then its searches need the verifier

    async def verify() -> None:
        try:
            await verifier.run(generator_ended)
        finally:
            stop.set()

    for outcome in await asyncio.gather(generate(), verify(), return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _status(generator: Worker, verifier: Worker | None = None) -> dict[str, Any]:
    """Return the JSON object of `/status`: the worker's, with that of its verifier in it."""
    return {**generator.status(), **({"verifier": verifier.status()} if verifier else {})}


def _engine_target(settings: WorkerSettings) -> engine_main.Target:
    return partial(engine_main.run, **_process_options(settings))


def _process_options(settings: WorkerSettings) -> dict[str, Any]:
    """Return the options with which an engine process writes its log."""
    return {"process": f"{settings.id}/engine", "log_style": settings.log_style, "log_level": settings.log_level}


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
