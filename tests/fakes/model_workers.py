"""Workers with real engines in the test's process: one that searches, and its verifier."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from inference_worker.settings import WorkerSettings
from inference_worker.tokenizer.tokenizer_files import read_text_files
from inference_worker.worker.job_handler import HandlerFactory
from inference_worker.worker.metrics import WorkerMetrics
from inference_worker.worker.scoring.handler import ScoringHandler
from inference_worker.worker.scoring.processor import ScoringProcessor
from inference_worker.worker.search.handler import SearchHandler
from inference_worker.worker.text.processor import TextProcessor
from inference_worker.worker.worker import Worker
from router.bus import Bus
from router.producer.child_jobs import ChildJobs
from router.producer.metrics import ProducerMetrics
from router.transport.base import Transport
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.fakes.fleet import MODEL, Fleet, until
from tests.fakes.local_engine import LocalEngine
from tests.fakes.search_workers import VERIFIER


@asynccontextmanager
async def searching_fleet(
    generator: LocalEngine, verifier: LocalEngine, generator_folder: Path, verifier_folder: Path
) -> AsyncIterator[Fleet]:
    """Run a gateway, a worker that searches and a verifier; the texts of the two are in their models' folders."""
    broker = MemoryBroker()
    async with AsyncExitStack() as stack:

        async def make_transport(name: str) -> Transport:
            transport = MemoryTransport(broker, name)
            await transport.start()
            stack.push_async_callback(transport.close)
            return transport

        async def start(name: str, model: str, engine: LocalEngine, handler: HandlerFactory, bus: Bus) -> None:
            settings: dict[str, Any] = {"model": model, "id": name, "max_num_seqs": 64, "amqp_url": "amqp://"}
            metrics = WorkerMetrics(CollectorRegistry(), model)
            worker = Worker(bus, engine, handler, WorkerSettings(**settings), metrics, model=model)
            stop = asyncio.Event()
            running = asyncio.create_task(worker.run(stop))
            stack.push_async_callback(asyncio.wait, [running], timeout=20)
            stack.callback(stop.set)
            await until(lambda: len(worker._consumer._consumers) > 0 or running.done())

        fleet = await stack.enter_async_context(Fleet(make_transport))
        buses = [Bus(await make_transport(name)) for name in ("verifier-1", "worker-1")]
        scores = ScoringProcessor.of(verifier_folder)
        stack.callback(scores.close)
        await start("verifier-1", VERIFIER, verifier, partial(ScoringHandler, scores), buses[0])
        metrics = ProducerMetrics(CollectorRegistry())
        children = ChildJobs(buses[1], "worker-1-inbox", metrics, no_worker_timeout=5, max_unread_bytes=2**24)
        await children.open()
        following = asyncio.create_task(children.run())
        stack.callback(following.cancel)
        text = TextProcessor.of(read_text_files(generator_folder))
        stack.callback(text.close)
        await start("worker-1", MODEL, generator, partial(SearchHandler, text, children), buses[1])
        yield fleet
