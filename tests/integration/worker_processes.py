"""A gateway in this process, and workers of one model in processes of their own, which tests kill."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from openai import AsyncOpenAI

from auth_billing.idempotency import IdempotencyKeys
from gateway.app import GatewayServices, create_app
from gateway.http.gateway import Gateway
from gateway.settings import GatewaySettings
from infra.home.process_records import kill_group
from router.messages import Receipt, Settlement, UsageRecord, WorkerState
from router.rabbitmq_bus import rabbitmq_bus
from tests.fakes.accounts import DictIdempotencyStore
from tests.fakes.administration import DictOrganisation
from tests.fakes.billing import FakeBilling
from tests.fakes.rate_buckets import rate_limiter
from tests.fakes.stored_objects import object_services
from tests.gateway.conftest import KEY, FakeAccounts

SECRET = "s" * 32


class WorkerProcesses:
    """The gateway, a client of it, the workers by name, and what was settled."""

    def __init__(
        self,
        url: str,
        settings: Mapping[str, str],
        gateway: Gateway,
        http: httpx.AsyncClient,
        settled: list[Settlement],
    ) -> None:
        """`settings`: environment variables of the workers, among them the model."""
        self._url = url
        self._settings = settings
        self.gateway = gateway
        self.http = http
        untyped: Any = http  # the SDK declares httpx2's client, and takes both
        self.client = AsyncOpenAI(api_key=KEY, base_url="http://gateway/v1", http_client=untyped, max_retries=0)
        self.settled = settled
        self.workers: dict[str, asyncio.subprocess.Process] = {}

    async def start_worker(
        self, name: str, settings: Mapping[str, str] | None = None, *, serves: Sequence[str] = ()
    ) -> None:
        """Start a worker with further settings; wait until it and the other workers that it `serves` are ready."""
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")},
            "HEADRACE_AMQP_URL": self._url,
            "HEADRACE_CONTROL_SECRET": SECRET,
            "HEADRACE_ID": name,
            "HEADRACE_THREADS": "1",
            **self._settings,
            **(settings or {}),
        }
        self.workers[name] = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "inference_worker", env=environment, start_new_session=True
        )
        async with asyncio.timeout(120):
            while not {name, *serves} <= self._ready():
                assert self.workers[name].returncode is None
                await asyncio.sleep(0.1)

    def _ready(self) -> set[str]:
        return {each.worker for each in self.gateway.models.workers() if each.state is WorkerState.READY}

    async def worker_amid_job(self, count: int) -> str:
        """Wait until some of the `count` results of the only job have arrived; return the worker's name."""
        async with asyncio.timeout(60):
            while True:
                for job in self.gateway.inbox._jobs.values():
                    if 0 < job.recovery.output.extent < count and job.recovery.worker_id:
                        return job.recovery.worker_id
                await asyncio.sleep(0.002)

    def kill(self, name: str) -> None:
        """Kill a worker and its engine, as a crash of the machine would."""
        kill_group(self.workers[name].pid)

    async def close(self) -> None:
        """Stop all workers."""
        for worker in self.workers.values():
            if worker.returncode is None:
                worker.send_signal(signal.SIGTERM)
        for name, worker in self.workers.items():
            try:
                await asyncio.wait_for(worker.wait(), 20)
            except TimeoutError:
                self.kill(name)

    def receipts(self) -> list[Receipt]:
        """The settled receipts, in order."""
        return [each for each in self.settled if isinstance(each, Receipt)]

    def records(self) -> list[UsageRecord]:
        """The usage records of workers, in order."""
        return [each for each in self.settled if isinstance(each, UsageRecord)]


@asynccontextmanager
async def worker_processes(
    url: str, folder: Path, model: str, settings: Mapping[str, str] | None = None
) -> AsyncIterator[WorkerProcesses]:
    """A gateway on the broker at `url`; workers that are started serve the model in `folder`."""
    async with AsyncExitStack() as stack:
        bus = rabbitmq_bus(url, "gateway-i", SECRET)
        await bus.start()
        stack.push_async_callback(bus.close)
        keys, limits = IdempotencyKeys(DictIdempotencyStore()), rate_limiter()
        services = GatewayServices(
            bus, FakeAccounts(), FakeBilling(), keys, DictOrganisation().administration, limits, *object_services()
        )
        app = create_app(services, GatewaySettings(gateway_id="gateway-i"))
        await stack.enter_async_context(app.router.lifespan_context(app))
        usage, settled = await bus.settlements(prefetch=100), []

        async def settle() -> None:
            async for envelope in usage:
                settled.append(envelope.message)
                envelope.delivery.ack()

        settling = asyncio.create_task(settle())
        stack.callback(settling.cancel)
        headers = {"Authorization": f"Bearer {KEY}"}
        transport = httpx.ASGITransport(app)
        http = httpx.AsyncClient(transport=transport, base_url="http://gateway/v1", headers=headers, timeout=120)
        stack.push_async_callback(http.aclose)
        served = {"HEADRACE_MODEL": str(folder), "HEADRACE_SERVED_MODEL_NAME": model, **(settings or {})}
        made = WorkerProcesses(url, served, app.state.gateway, http, settled)
        stack.push_async_callback(made.close)
        yield made
