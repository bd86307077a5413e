"""A gateway on the in-memory broker, with a scripted worker and accounts that know two keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from auth_billing.errors import InvalidApiKey, StoreUnavailable
from auth_billing.service import AuthBilling, Principal
from gateway.app import GatewayServices, create_app
from gateway.gateway import Gateway
from gateway.settings import GatewaySettings
from router.bus import Bus
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.fakes.scripted_worker import Script, ScriptedWorker, count

KEY = "hr_live_good"
MODEL = "org/counting-model"
HEADERS = {"authorization": f"Bearer {KEY}"}


class FakeAccounts(AuthBilling):
    """Knows one key, and a second one for which the store is down."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def authenticate(self, token: str) -> Principal:
        self.asked.append(token)
        if token == "hr_live_down":
            raise StoreUnavailable("connection refused to mongodb://secret")
        if token != KEY:
            raise InvalidApiKey("unknown")
        return Principal(key_id="key-1", tenant="tenant-1", cache_salt="salt-1")


@dataclass
class Stage:
    """Everything of a test."""

    app: FastAPI
    client: httpx.AsyncClient
    worker: ScriptedWorker
    broker: MemoryBroker
    accounts: FakeAccounts

    @property
    def gateway(self) -> Gateway:
        gateway: Gateway = self.app.state.gateway
        return gateway

    async def chat(self, content: str = "hi", **fields: Any) -> httpx.Response:
        body = {"model": MODEL, "messages": [{"role": "user", "content": content}], **fields}
        return await self.client.post("/v1/chat/completions", json=body)

    async def complete(self, prompt: Any = "hi", **fields: Any) -> httpx.Response:
        return await self.client.post("/v1/completions", json={"model": MODEL, "prompt": prompt, **fields})


SetStage = Callable[..., Awaitable[Stage]]


async def eventually(condition: Callable[[], bool]) -> None:
    """Let other tasks run until `condition` holds; the test's own timeout is the limit."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def stage(script: Script = count, **settings: Any) -> AsyncIterator[Stage]:
    broker, accounts = MemoryBroker(), FakeAccounts()
    async with AsyncExitStack() as stack:
        buses = [Bus(MemoryTransport(broker, name)) for name in ("gateway", "worker")]
        for bus in buses:
            await bus.start()
            stack.push_async_callback(bus.close)
        app = create_app(GatewayServices(buses[0], accounts), GatewaySettings(**{"registry_warmup": 0.0} | settings))
        await stack.enter_async_context(app.router.lifespan_context(app))
        worker = await stack.enter_async_context(ScriptedWorker(buses[1], MODEL, script).running())
        transport = httpx.ASGITransport(app)
        client = await stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=HEADERS)
        )
        set_up = Stage(app, client, worker, broker, accounts)
        await eventually(lambda: set_up.gateway.models.find(MODEL) is not None)
        yield set_up
        await eventually(lambda: len(set_up.gateway.inbox) == 0)  # no request leaves anything behind


@pytest.fixture
async def set_stage() -> AsyncIterator[SetStage]:
    async with AsyncExitStack() as stack:

        async def set_up(script: Script = count, **settings: Any) -> Stage:
            return await stack.enter_async_context(stage(script, **settings))

        yield set_up
