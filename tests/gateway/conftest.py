"""A gateway on the in-memory broker, with a scripted worker and accounts that know two keys; also on a real port."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import httpx
import openai
import pytest
from fastapi import FastAPI

from auth_billing.access.principal import Principal
from auth_billing.authenticator import Authenticator
from auth_billing.errors import InvalidApiKey, NoSuchRecord, StoreUnavailable
from auth_billing.idempotency import IdempotencyKeys
from auth_billing.keys import key_format
from auth_billing.keys.key_cache import KeyCache
from gateway.app import GatewayServices, create_app
from gateway.http.gateway import Gateway
from gateway.http.server import serve_app
from gateway.settings import GatewaySettings
from infra.launcher.readiness import free_port
from router.bus import Bus
from router.messages import Receipt, Task
from router.timings import Timings
from router.transport.memory import MemoryBroker, MemoryTransport
from stored_objects.project_documents.project_documents import StoredDocuments
from tests.fakes.accounts import DictApiKeyStore, DictIdempotencyStore
from tests.fakes.administration import DictOrganisation
from tests.fakes.billing import FakeBilling
from tests.fakes.rate_buckets import DictBucketStore, rate_limiter
from tests.fakes.scripted_worker import Script, ScriptedWorker, count, status
from tests.fakes.stored_objects import object_services, searches_in

PEPPER = b"p" * 32
KEY = "hr_live_good"
OTHER_KEY = "hr_live_of_another_tenant"
MODEL = "org/counting-model"
HEADERS = {"authorization": f"Bearer {KEY}"}
HI: Any = [{"role": "user", "content": "hi"}]


class FakeAccounts(Authenticator):
    """Accounts with two tenants' keys, the keys that a test adds, and a key for which the store is down."""

    def __init__(self) -> None:
        self.store = DictApiKeyStore()
        self.cache = KeyCache()
        super().__init__(self.store, PEPPER, cache=self.cache)
        self.asked: list[str] = []
        self.added: dict[str, Principal] = {}
        self.revoked: set[str] = set()
        """Ids of keys and people that are not found any more."""

    @property
    def generation(self) -> int:
        """Number of announcements that keys have changed."""
        return self.cache.generation

    async def authenticate(self, token: str) -> Principal:
        self.asked.append(token)
        if key_format.parse(token) is not None:  # a real one, which only the store knows
            return await super().authenticate(token)
        if token == "hr_live_down":
            raise StoreUnavailable("connection refused to mongodb://secret")
        if token in self.added:
            return self.added[token]
        if token == OTHER_KEY:
            return Principal(key_id="key-2", tenant="tenant-2", cache_salt="salt-2")
        if token != KEY:
            raise InvalidApiKey("unknown")
        return Principal(key_id="key-1", tenant="tenant-1", cache_salt="salt-1", project="project-1")

    async def principal_of_member(self, organisation: str, project: str, user: str) -> Principal:
        if user in self.revoked:
            raise NoSuchRecord(user)
        return Principal(key_id="", tenant=organisation, cache_salt="salt-1", project=project, user=user)

    async def principal_of_key(self, key_id: str) -> Principal:
        for token in (KEY, OTHER_KEY, *self.added):
            principal = await self.authenticate(token)
            if principal.key_id == key_id and key_id not in self.revoked:
                return principal
        raise InvalidApiKey("unknown")


@dataclass
class Stage:
    """A gateway under test with its worker, broker and stores."""

    app: FastAPI
    client: httpx.AsyncClient
    worker: ScriptedWorker
    broker: MemoryBroker
    accounts: FakeAccounts
    idempotency: DictIdempotencyStore
    organisation: DictOrganisation
    buckets: DictBucketStore
    billing: FakeBilling
    receipts: list[Receipt]

    @property
    def gateway(self) -> Gateway:
        gateway: Gateway = self.app.state.gateway
        return gateway

    async def chat(self, content: str = "hi", **fields: Any) -> httpx.Response:
        body = {"model": MODEL, "messages": [{"role": "user", "content": content}], **fields}
        return await self.client.post("/v1/chat/completions", json=body)

    async def receipt(self) -> Receipt:
        """Wait for the only receipt."""
        await eventually(lambda: bool(self.receipts))
        (receipt,) = self.receipts
        return receipt

    def is_settled(self) -> bool:
        """Whether every hold was voided or has its receipt."""
        return self.billing.held.keys() <= {*self.billing.voided, *(receipt.job for receipt in self.receipts)}

    async def complete(self, prompt: Any = "hi", **fields: Any) -> httpx.Response:
        return await self.client.post("/v1/completions", json={"model": MODEL, "prompt": prompt, **fields})


QUICK = Timings(gap_retry_interval=0.01, answer_progress_interval=0.05, answer_scan_interval=0.05)
"""A scripted worker never sends lost replies again: requests fail soon."""

SetStage = Callable[..., Awaitable[Stage]]

VERIFIER = "org/verifier"
"""A model that scores, at a gateway after `announce_searches`."""


async def announce_searches(stage: Stage) -> None:
    """Have the gateway hear that the worker searches, and of a verifier."""
    for each in (status(MODEL, searches=True), status(VERIFIER, "worker-2", task=Task.SCORE)):
        stage.worker.bus.send_status(each)
    find = stage.gateway.models.find
    await eventually(
        lambda: find(VERIFIER) is not None and all(each is not None and each.searches for each in [find(MODEL)])
    )


async def eventually(condition: Callable[[], bool]) -> None:
    """Let other tasks run until `condition` holds; the test's own timeout is the limit."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def stage(
    script: Script = count,
    *,
    idempotency: DictIdempotencyStore | None = None,
    documents: StoredDocuments | None = None,
    timings: Timings = QUICK,
    **settings: Any,
) -> AsyncIterator[Stage]:
    broker, accounts, keys = MemoryBroker(), FakeAccounts(), idempotency or DictIdempotencyStore()
    organisation, buckets = DictOrganisation(), DictBucketStore()
    async with AsyncExitStack() as stack:
        buses = [Bus(MemoryTransport(broker, name)) for name in ("gateway", "worker", "billing")]
        for bus in buses:
            await bus.start()
            stack.push_async_callback(bus.close)
        billing, receipts = FakeBilling(), await stack.enter_async_context(_receipts(buses[2]))
        set_to = GatewaySettings(**{"registry_warmup": 0.0} | settings)
        limits = rate_limiter(set_to.default_limits, buckets)
        services = GatewayServices(
            buses[0],
            accounts,
            billing,
            IdempotencyKeys(keys),
            organisation.administration,
            limits,
            *object_services(documents),
            timings=timings,
        )
        app = create_app(services, set_to)
        await stack.enter_async_context(app.router.lifespan_context(app))
        worker = await stack.enter_async_context(ScriptedWorker(buses[1], MODEL, script).running())
        transport = httpx.ASGITransport(app)
        client = await stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=HEADERS)
        )
        set_up = Stage(app, client, worker, broker, accounts, keys, organisation, buckets, billing, receipts)
        await eventually(lambda: set_up.gateway.models.find(MODEL) is not None)
        yield set_up
        await eventually(lambda: len(set_up.gateway.inbox) == 0)  # no request leaves anything behind
        await eventually(set_up.is_settled)
        settled = [*billing.voided, *(receipt.job for receipt in receipts)]
        assert len(settled) == len(set(settled)), "a job was settled twice"


@asynccontextmanager
async def gateway_beside(first: Stage, **settings: Any) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient]]:
    """A second gateway with the broker, worker, accounts and stores of `first`, and a client of it."""
    bus = Bus(MemoryTransport(first.broker, "gateway-2"))
    await bus.start()
    set_to = GatewaySettings(registry_warmup=0.0, gateway_id="gateway-2", **settings)
    limits = rate_limiter(set_to.default_limits, first.buckets)
    keys, administration = IdempotencyKeys(first.idempotency), first.organisation.administration
    accounts, billing = first.accounts, first.billing
    own = first.gateway
    stores = own.vector_stores
    objects = own.objects, own.addresses, own.contents, own.documents, stores, searches_in(stores)
    services = GatewayServices(bus, accounts, billing, keys, administration, limits, *objects, timings=QUICK)
    app = create_app(services, set_to)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(bus.close)
        await stack.enter_async_context(app.router.lifespan_context(app))
        first.worker.bus.send_status(status(MODEL))
        transport = httpx.ASGITransport(app)
        client = httpx.AsyncClient(transport=transport, base_url="http://gateway-2", headers=HEADERS)
        await stack.enter_async_context(client)
        gateway: Gateway = app.state.gateway
        await eventually(lambda: gateway.models.find(MODEL) is not None)
        yield gateway, client


@asynccontextmanager
async def _receipts(bus: Bus) -> AsyncIterator[list[Receipt]]:
    """Collect all published receipts."""
    received: list[Receipt] = []
    inbound = await bus.settlements(prefetch=256)

    async def take() -> None:
        async for envelope in inbound:
            if isinstance(envelope.message, Receipt):  # the rest is what workers say
                received.append(envelope.message)
            envelope.delivery.ack()

    task = asyncio.create_task(take())
    yield received
    task.cancel()


@pytest.fixture
async def set_stage() -> AsyncIterator[SetStage]:
    async with AsyncExitStack() as stack:

        async def set_up(script: Script = count, **settings: Any) -> Stage:
            return await stack.enter_async_context(stage(script, **settings))

        yield set_up


@dataclass
class Served:
    stage: Stage
    port: int
    stop: asyncio.Event
    serving: asyncio.Task[None]
    resources: AsyncExitStack
    """What is closed once the server has stopped."""

    @cached_property
    def client(self) -> openai.AsyncOpenAI:
        return self.sdk(KEY)

    def sdk(self, key: str) -> openai.AsyncOpenAI:
        client = openai.AsyncOpenAI(base_url=self.url, api_key=key, max_retries=0)
        self.resources.push_async_callback(client.close)
        return client

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**16)
        self.resources.callback(writer.transport.abort)
        return reader, writer

    async def post(self, *, headers: bytes = b"", **fields: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A chat request; `headers` are lines of its head."""
        body = json.dumps({"model": MODEL, "messages": HI, **fields}).encode()
        reader, writer = await self.connect()
        writer.write(head(len(body), headers) + body)
        return reader, writer


Serve = Callable[..., Awaitable[Served]]


def head(length: int, headers: bytes = b"") -> bytes:
    return (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n".encode()
        + headers
        + f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n".encode()
    )


@asynccontextmanager
async def served(script: Script, **settings: Any) -> AsyncIterator[Served]:
    port = free_port()
    async with stage(script, port=port, **settings) as set_up, AsyncExitStack() as resources:
        # The stage has run the lifespan already; the server must not listen to the same queues twice.
        set_up.app.router.lifespan_context = _no_lifespan
        stop = asyncio.Event()
        serving = asyncio.create_task(serve_app(set_up.app, set_up.gateway.settings, stop))
        result = Served(set_up, port, stop, serving, resources)
        await eventually(lambda: serving.done() or answers(port))
        yield result
        stop.set()
        await result.serving


@asynccontextmanager
async def _no_lifespan(_app: object) -> AsyncIterator[None]:
    yield


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    async with AsyncExitStack() as stack:

        async def start(script: Script = count, **settings: Any) -> Served:
            settings.setdefault("shutdown_grace", 0.0)
            return await stack.enter_async_context(served(script, **settings))

        yield start
