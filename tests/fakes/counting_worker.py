"""A real worker process with the counting engine: `python -m tests.fakes.counting_worker --amqp-url ... --id ...`."""

from __future__ import annotations

import argparse
import asyncio
from functools import partial

from prometheus_client import CollectorRegistry

from inference_worker.settings import WorkerSettings
from inference_worker.worker.generation_handler import GenerationHandler
from inference_worker.worker.metrics import WorkerMetrics
from inference_worker.worker.worker import Worker
from router.bus import Bus
from router.transport.rabbitmq import RabbitMQTransport
from runtime import lifecycle, logging
from runtime.ops_server import OpsServer
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.counting_text import counting_text


async def _run(arguments: argparse.Namespace) -> None:
    of_settings = {name: value for name, value in vars(arguments).items() if name in WorkerSettings.model_fields}
    settings = WorkerSettings(max_num_seqs=arguments.capacity, **of_settings)
    logging.configure(settings.id, style="console", level=settings.log_level)
    stop, hand_over = asyncio.Event(), asyncio.Event()
    lifecycle.stop_on_signals(stop, again=hand_over.set)
    bus = Bus(RabbitMQTransport(settings.amqp_url, name=settings.id))
    engine = CountingEngine(step_time=arguments.step_time, capacity=arguments.capacity)
    registry = CollectorRegistry()
    metrics = WorkerMetrics(registry, settings.model)
    handler = partial(GenerationHandler, counting_text())
    worker = Worker(bus, engine, handler, settings, metrics, model=settings.model, hand_over=hand_over)
    ops = OpsServer(registry, settings.ops_host, settings.ops_port, status=worker.status)
    await ops.start()
    try:
        await bus.start(declares_platform=False)
        await worker.run(stop)
    finally:
        await bus.close()
        await ops.stop()


def main() -> None:
    """Read the command line and run the worker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--amqp-url", required=True)
    parser.add_argument("--id", default="worker-1")
    parser.add_argument("--model", default="counting")
    parser.add_argument("--capacity", type=int, default=64)
    parser.add_argument("--step-time", type=float, default=0.01)
    parser.add_argument("--drain-grace", type=float, default=120.0)
    parser.add_argument("--ops-port", type=int, default=0)
    lifecycle.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
