"""Fixture with a gateway and a proxy on the in-memory broker, and upstreams whose answers the test scripts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from auth_billing.idempotency import IdempotencyKeys
from gateway.app import GatewayServices, create_app
from gateway.http.gateway import Gateway
from gateway.settings import GatewaySettings
from proxy.server import serve
from proxy.settings import ProxySettings
from router.bus import Bus
from router.messages import UsageRecord
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.fakes.accounts import DictIdempotencyStore
from tests.fakes.administration import DictOrganisation
from tests.fakes.billing import FakeBilling
from tests.fakes.rate_buckets import rate_limiter
from tests.fakes.scripted_upstream import Script, ScriptedUpstream
from tests.fakes.stored_objects import object_services
from tests.gateway.conftest import HEADERS, FakeAccounts, eventually

MODEL = "org/outside"
UPSTREAM_KEY = "sk-outside-1234567890"

CATALOGUE = """
[upstreams.{name}]
base_url = "{url}"
api_key_env = "TEST_UPSTREAM_KEY"
timeouts = {{ connect = 20, first_event = {first_event}, between_events = {between_events} }}
"""


@dataclass
class ProxySetup:
    """A gateway's client, the scripted upstreams, and the usage records published so far."""

    client: httpx.AsyncClient
    upstreams: list[ScriptedUpstream]
    broker: MemoryBroker
    gateway: Gateway
    records: list[UsageRecord] = field(default_factory=list)

    async def chat(self, content: str = "hi", **fields: Any) -> httpx.Response:
        body = {"model": MODEL, "messages": [{"role": "user", "content": content}], **fields}
        return await self.client.post("/v1/chat/completions", json=body)

    async def events(self, **fields: Any) -> list[dict[str, Any]]:
        """Return a stream's events, without the last one (`[DONE]`)."""
        response = await self.chat(stream=True, stream_options={"include_usage": True}, **fields)
        assert response.status_code == 200, response.text
        data = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
        return [json.loads(each) for each in data if each != "[DONE]"]

    async def record(self) -> UsageRecord:
        """Wait for the only usage record."""
        await eventually(lambda: bool(self.records))
        (record,) = self.records
        return record

    @property
    def request_counts(self) -> list[int]:
        """Number of requests to each upstream."""
        return [len(upstream.requests) for upstream in self.upstreams]


StartProxy = Callable[..., Awaitable[ProxySetup]]


async def _collect_records(setup: ProxySetup, bus: Bus) -> None:
    async for envelope in await bus.settlements(prefetch=100):
        if isinstance(envelope.message, UsageRecord):  # not the gateway's receipts
            setup.records.append(envelope.message)
        envelope.delivery.ack()


@pytest.fixture
async def start_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StartProxy]:
    monkeypatch.setenv("TEST_UPSTREAM_KEY", UPSTREAM_KEY)
    async with AsyncExitStack() as stack:

        async def start(
            *scripts: Script | list[Script] | str,
            first_event: float = 5,
            between_events: float = 5,
            their_name: str = "their-{n}",
            no_worker_timeout: float = 30.0,
            **model: Any,
        ) -> ProxySetup:
            broker = MemoryBroker()
            upstreams = []
            for each in scripts:
                if isinstance(each, str):  # the URL of a running upstream
                    upstreams.append(ScriptedUpstream())
                    upstreams[-1].url = each
                else:
                    upstream = ScriptedUpstream(*(each if isinstance(each, list) else [each]))
                    upstreams.append(await stack.enter_async_context(upstream.running()))
            written = "".join(
                CATALOGUE.format(name=f"u{n}", url=each.url, first_event=first_event, between_events=between_events)
                for n, each in enumerate(upstreams)
            )
            routes = ", ".join(
                f'{{ upstream = "u{n}", model = "{their_name.format(n=n)}" }}' for n in range(len(upstreams))
            )
            fields = "".join(f"{name} = {json.dumps(value)}\n" for name, value in model.items())
            written += f'[models."{MODEL}"]\nmax_model_len = 4096\n{fields}routes = [{routes}]\n'
            (tmp_path / "proxy.toml").write_text(written)

            bus, observer = (Bus(MemoryTransport(broker, name)) for name in ("gateway", "observer"))
            for one_bus in (bus, observer):
                await one_bus.start()
                stack.push_async_callback(one_bus.close)
            keys, limits = IdempotencyKeys(DictIdempotencyStore()), rate_limiter()
            services = GatewayServices(
                bus, FakeAccounts(), FakeBilling(), keys, DictOrganisation().administration, limits, *object_services()
            )
            app = create_app(services, GatewaySettings(registry_warmup=0.0, no_worker_timeout=no_worker_timeout))
            await stack.enter_async_context(app.router.lifespan_context(app))
            stop, hand_over = asyncio.Event(), asyncio.Event()
            settings = ProxySettings(proxy_config=tmp_path / "proxy.toml")
            proxy = asyncio.create_task(
                serve(settings, stop, transport=MemoryTransport(broker, "proxy-1"), hand_over=hand_over)
            )

            async def end() -> None:
                stop.set()
                hand_over.set()
                await asyncio.wait_for(proxy, 10)

            stack.push_async_callback(end)
            client = await stack.enter_async_context(
                httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway", headers=HEADERS)
            )
            setup = ProxySetup(client, upstreams, broker, app.state.gateway)
            collecting = asyncio.create_task(_collect_records(setup, observer))
            stack.callback(collecting.cancel)
            await eventually(lambda: app.state.gateway.models.find(MODEL) is not None)
            return setup

        yield start
