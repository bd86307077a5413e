"""Images from end to end: OpenAI's client, gateway, RabbitMQ, workers as processes, of which one is killed."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI
from PIL import Image

from auth_billing.idempotency import IdempotencyKeys
from gateway.app import GatewayServices, create_app
from gateway.http.gateway import Gateway
from gateway.settings import GatewaySettings
from infra.home.process_records import kill_group
from router.messages import Outcome, Receipt, Settlement, Usage, UsageRecord
from router.rabbitmq_bus import rabbitmq_bus
from tests.fakes.accounts import DictIdempotencyStore
from tests.fakes.administration import DictOrganisation
from tests.fakes.billing import FakeBilling
from tests.fakes.rate_buckets import rate_limiter
from tests.fakes.stored_objects import object_services
from tests.gateway.conftest import KEY, FakeAccounts, eventually

MODEL = "painter"
SIZE = "64x64"
STEPS = 40
SECRET = "s" * 32

pytestmark = pytest.mark.rabbitmq


class Platform:
    """A gateway in this process, and workers in processes of their own."""

    def __init__(
        self, url: str, folder: Path, gateway: Gateway, client: AsyncOpenAI, settled: list[Settlement]
    ) -> None:
        self._url = url
        self._folder = folder
        self.gateway = gateway
        self.client = client
        self.settled = settled
        self.workers: dict[str, asyncio.subprocess.Process] = {}

    async def start_worker(self, name: str) -> None:
        """Start a worker, and wait until it is ready."""
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")},
            "HEADRACE_AMQP_URL": self._url,
            "HEADRACE_CONTROL_SECRET": SECRET,
            "HEADRACE_MODEL": str(self._folder),
            "HEADRACE_SERVED_MODEL_NAME": MODEL,
            "HEADRACE_ID": name,
            "HEADRACE_DTYPE": "float32",
            "HEADRACE_THREADS": "1",
            "HEADRACE_IMAGE_STEPS": str(STEPS),
            "HEADRACE_IMAGE_SIZES": f"{SIZE},64x32",
        }
        self.workers[name] = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "inference_worker", env=environment, start_new_session=True
        )
        async with asyncio.timeout(120):
            while name not in {status.worker for status in self.gateway.models.workers()}:
                assert self.workers[name].returncode is None
                await asyncio.sleep(0.1)

    async def drawing_worker(self) -> str:
        """Wait until an image of the only job has arrived and another is missing; return the worker's name."""
        async with asyncio.timeout(60):
            while True:
                for job in self.gateway.inbox._jobs.values():
                    if 0 < job.recovery.output.extent < job.recovery.job.n and job.recovery.worker_id:
                        return job.recovery.worker_id
                await asyncio.sleep(0.01)

    def kill(self, name: str) -> None:
        """Kill a worker and its engine, as a crash of the machine would."""
        kill_group(self.workers[name].pid)

    async def close(self) -> None:
        for worker in self.workers.values():
            if worker.returncode is None:
                worker.send_signal(signal.SIGTERM)
        for name, worker in self.workers.items():
            try:
                await asyncio.wait_for(worker.wait(), 20)
            except TimeoutError:
                self.kill(name)

    def receipts(self) -> list[Receipt]:
        return [each for each in self.settled if isinstance(each, Receipt)]

    def records(self) -> list[UsageRecord]:
        return [each for each in self.settled if isinstance(each, UsageRecord)]


@asynccontextmanager
async def platform(url: str, folder: Path) -> AsyncIterator[Platform]:
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
        http: Any = httpx.AsyncClient(transport=httpx.ASGITransport(app))
        client = AsyncOpenAI(api_key=KEY, base_url="http://gateway/v1", http_client=http, max_retries=0)
        stack.push_async_callback(client.close)
        made = Platform(url, folder, app.state.gateway, client, settled)
        stack.push_async_callback(made.close)
        yield made


async def draw(client: AsyncOpenAI, prompt: str = "a cat", **fields: Any) -> list[bytes]:
    answer = await client.images.generate(model=MODEL, prompt=prompt, response_format="b64_json", **fields)
    return [base64.b64decode(each.b64_json or "") for each in answer.data or []]


async def test_a_killed_workers_images_come_once_from_another_and_are_billed_once(
    rabbitmq_url: str, pipeline_folder: Path
) -> None:
    async with platform(rabbitmq_url, pipeline_folder) as drawn:
        for name in ("worker-1", "worker-2"):
            await drawn.start_worker(name)
        seeded: dict[str, Any] = {"n": 3, "size": SIZE, "extra_body": {"seed": 7}}
        request = asyncio.create_task(draw(drawn.client, **seeded))
        killed = await drawn.drawing_worker()
        drawn.kill(killed)
        images = await request
        assert [Image.open(io.BytesIO(each)).size for each in images] == [(64, 64)] * 3
        assert len(set(images)) == 3
        await eventually(lambda: len(drawn.receipts()) == len(drawn.records()) == 1)
        used = Usage(prompt_tokens=0, units={SIZE: 3})
        assert [(each.usage, each.outcome) for each in drawn.receipts()] == [(used, Outcome.FINISHED)]
        assert [(each.usage, each.worker == killed) for each in drawn.records()] == [(used, False)]

        assert await draw(drawn.client, **seeded) == images, "the same seed draws the same images"
        assert images[0] != (await draw(drawn.client, size=SIZE))[0]

        with pytest.raises(openai.BadRequestError, match="up to 16 tokens") as refused:
            await draw(drawn.client, "a long prompt that would be cut off")
        assert (refused.value.code, refused.value.param) == ("context_length_exceeded", "prompt")
        listed = [model.to_dict() async for model in drawn.client.models.list()]
        assert [(each["task"], each["image_sizes"]) for each in listed] == [("image", [SIZE, "64x32"])]

        left = asyncio.create_task(draw(drawn.client, n=10, size=SIZE))
        await drawn.drawing_worker()
        left.cancel()
        await eventually(lambda: drawn.records()[-1].outcome is Outcome.CANCELLED)
        async with asyncio.timeout(20):
            assert len(await draw(drawn.client, size="64x32")) == 1, "the worker is free after one step"
