"""A whole platform in one process, on the real store: gateways on ports, billing, counting workers, a paying customer.

Everything is the product's own, except the engines and the transport that a test supplies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import openai
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from auth_billing.__main__ import consume, prepare_store
from auth_billing.audit.auditor import Auditor
from auth_billing.development_account import ORGANISATION
from auth_billing.housekeeping import Housekeeping
from auth_billing.keys.key_invalidation import invalidation_publisher
from auth_billing.metrics import BillingMetrics
from auth_billing.money.billing_records import Balance
from auth_billing.settings import BillingSettings
from auth_billing.store.audit import MongoAuditStore
from auth_billing.store.billing_stores import mongo_billing_stores
from auth_billing.store.connection import StoreConnection
from gateway.app import GatewayServices, create_app
from gateway.http.gateway import Gateway
from gateway.http.server import serve_app
from gateway.settings import GatewaySettings
from inference_worker.settings import WorkerSettings
from inference_worker.worker.metrics import WorkerMetrics
from inference_worker.worker.search.handler import SearchHandler
from inference_worker.worker.worker import Worker
from infra.accounts import account_services
from infra.accounts.account_services import AccountServices
from infra.home.home import Home
from infra.launcher.readiness import free_port, is_free
from router.bus import Bus
from router.producer.child_jobs import ChildJobs
from router.producer.metrics import ProducerMetrics
from router.timings import DEFAULT_TIMINGS, Timings
from router.transport.base import Transport
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.counting_text import counting_text
from tests.fakes.stored_objects import object_services

MODEL = "counting"
MakeTransport = Callable[[str], Transport]
"""By process name; not started."""


class PayingPlatform:
    """An async context: ready when it is entered, all that was handed in is settled when it is left."""

    def __init__(
        self, make_transport: MakeTransport, database_url: str, home: Path, timings: Timings = DEFAULT_TIMINGS
    ) -> None:
        self._make_transport = make_transport
        self._database_url = database_url
        self._home = home
        self._timings = timings
        self._stack = AsyncExitStack()
        self.engines: list[CountingEngine] = []
        self.gateways: list[Gateway] = []
        self.urls: list[str] = []
        self.key = ""
        self.connection: StoreConnection

    async def __aenter__(self) -> PayingPlatform:
        opened = account_services.opened(Home(self._home), self._database_url, pepper="0" * 64)
        self._access: AccountServices = await self._stack.enter_async_context(opened)
        self.connection = self._access.connection
        await prepare_store(self.connection)
        await self._start_billing()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stack.aclose()

    async def start(self, *, gateways: int, workers: int, make_engine: Callable[[], CountingEngine]) -> None:
        """So many of each, and the development account's key."""
        for number in range(workers):
            await self._start_worker(f"worker-{number + 1}", make_engine())
        for number in range(gateways):
            await self._start_gateway(f"gateway-{number + 1}")
        self.key = await self._give_key()

    def client(self, gateway: int = 0) -> openai.AsyncOpenAI:
        client = openai.AsyncOpenAI(base_url=self.urls[gateway], api_key=self.key, max_retries=0, timeout=60)
        self._stack.push_async_callback(client.close)
        return client

    async def balance(self) -> Balance:
        balance = await mongo_billing_stores(self.connection).balances.find(ORGANISATION)
        assert balance is not None
        return balance

    async def documents(self, collection: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self.connection.durable(collection).find({}).to_list(None)
        return found

    async def settled(self, seconds: float = 60.0) -> None:
        """Wait until nothing is held, and every job is settled."""
        async with asyncio.timeout(seconds):
            while (await self.balance()).held or await self._unsettled():
                await asyncio.sleep(0.1)

    async def differences(self) -> list[Any]:
        """What the auditor finds."""
        return list((await Auditor(MongoAuditStore(self.connection), pause=0.5).audit()).differences)

    async def _unsettled(self) -> int:
        jobs = self.connection.durable("jobs")
        return int(await jobs.count_documents({"state": {"$ne": "settled"}}))

    async def _bus(self, name: str) -> Bus:
        bus = Bus(self._make_transport(name))
        await bus.start()
        self._stack.push_async_callback(bus.close)
        return bus

    async def _start_billing(self) -> None:
        settings = BillingSettings(mongodb_url=self._database_url)
        chores = Housekeeping(settings, self.connection)
        await chores.prepare()
        stop = asyncio.Event()
        bus = await self._bus("billing")
        await self._until_stopped(
            consume(bus, self.connection, chores, BillingMetrics(CollectorRegistry()), stop), stop
        )

    async def _start_worker(self, name: str, engine: CountingEngine) -> None:
        bus, stop = await self._bus(name), asyncio.Event()
        settings = WorkerSettings(model=MODEL, id=name, max_num_seqs=64, drain_grace=10, ops_port=0)
        registry = CollectorRegistry()
        metrics = WorkerMetrics(registry, MODEL)
        children = ChildJobs(
            bus, f"{name}-children", ProducerMetrics(registry), no_worker_timeout=5.0, max_unread_bytes=2**20
        )
        await children.open()
        following = asyncio.create_task(children.run())
        self._stack.callback(following.cancel)
        self._stack.push_async_callback(children.close)
        handler = partial(SearchHandler, counting_text(), children)
        worker = Worker(bus, engine, handler, settings, metrics, model=MODEL, hand_over=stop)
        self.engines.append(engine)
        await self._until_stopped(worker.run(stop), stop)

    async def _start_gateway(self, name: str) -> None:
        bus, stop, port = await self._bus(name), asyncio.Event(), free_port()
        settings = GatewaySettings(gateway_id=name, port=port, shutdown_grace=5.0)
        app = self._app(bus, settings)
        await self._until_stopped(serve_app(app, settings, stop), stop)
        gateway: Gateway = app.state.gateway
        self.gateways.append(gateway)
        self.urls.append(f"http://127.0.0.1:{port}/v1")
        async with asyncio.timeout(30):
            while is_free("127.0.0.1", port) or gateway.models.find(MODEL) is None:
                await asyncio.sleep(0.02)

    def _app(self, bus: Bus, settings: GatewaySettings) -> FastAPI:
        """What a gateway serves."""
        return create_app(self._services(bus, settings), settings)

    def _services(self, bus: Bus, settings: GatewaySettings) -> GatewayServices:
        access = self._access
        return GatewayServices(
            bus,
            access.authenticator(),
            access.billing(),
            access.idempotency_keys(),
            access.administration(invalidation_publisher(bus)),
            access.rate_limiter(settings.gateway_id, settings.default_limits),
            *object_services(),
            timings=self._timings,
        )

    async def _give_key(self) -> str:
        return await self._access.write_development_key(self.urls[0])

    async def _until_stopped(self, serving: Any, stop: asyncio.Event) -> None:
        task = asyncio.create_task(serving)

        async def end() -> None:
            stop.set()
            await asyncio.wait_for(task, 30)

        self._stack.push_async_callback(end)
