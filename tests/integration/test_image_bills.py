"""Images are billed on the real store: each size at its own price, a size without a price is refused."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import openai
import pytest

from auth_billing.prices.price_book import PriceBook
from auth_billing.prices.pricing import TokenRate
from auth_billing.store.prices import MongoPriceStore
from router.bus import Bus
from router.messages import Drawn, Failed, FailureCode, Job, ServiceClass, Started
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.paying_platform import PayingPlatform
from tests.fakes.scripted_worker import ScriptedWorker, draw, png

PAINTER = "painter"
SIZES = ("512x512", "512x256", "256x256")
PRICES = {"512x512": 4_000_000, "512x256": 2_500_000}
"""Nano-USD of an image; one of the sizes has no price."""


async def _draw_and_fail(worker: ScriptedWorker, job: Job) -> None:
    """One of the images, then an error."""
    worker.send(job, Started(job_id=job.id, attempt_id="a", worker_id=worker.worker, prompt_tokens=0))
    worker.send(job, Drawn(job_id=job.id, attempt_id="a", start=1, images=[png(1)]))
    worker.send(job, Failed(job_id=job.id, attempt_id="a", code=FailureCode.ENGINE_ERROR, message="No."))


async def _ask(client: openai.AsyncOpenAI, size: str, n: int) -> int:
    answer = await client.images.generate(
        model=PAINTER, prompt="A lighthouse", n=n, size=size, response_format="b64_json"
    )
    return len(answer.data or [])


@pytest.mark.store
async def test_each_size_has_its_own_price(database_url: str, tmp_path: Path) -> None:
    broker = MemoryBroker()
    async with PayingPlatform(partial(MemoryTransport, broker), database_url, tmp_path) as platform:
        await platform.start(gateways=1, workers=1, make_engine=CountingEngine)
        prices = PriceBook(MongoPriceStore(platform.connection))
        rate = TokenRate(0, 0, 0, units=PRICES)
        await prices.edit(PAINTER, dict.fromkeys(ServiceClass, rate), seen=(await prices.newest()).prices.version)
        bus = Bus(MemoryTransport(broker, "worker-9"))
        await bus.start()
        worker = ScriptedWorker(bus, PAINTER, draw, "worker-9", image_sizes=SIZES)
        async with worker.running():
            while platform.gateways[0].models.find(PAINTER) is None:
                await asyncio.sleep(0.01)
            client = platform.client()
            before = (await platform.balance()).available
            assert await _ask(client, "512x512", 3) == 3
            assert await _ask(client, "512x256", 2) == 2
            await platform.settled()
            cost = 3 * PRICES["512x512"] + 2 * PRICES["512x256"]
            assert before - (await platform.balance()).available == cost
            assert sorted(job["hold"] for job in await platform.documents("jobs")) == [5_000_000, 12_000_000]

            with pytest.raises(openai.InternalServerError) as refused:
                await _ask(client, "256x256", 1)
            assert refused.value.status_code == 503
            assert len(worker.jobs) == 2, "it is refused before it is queued"

            worker.script = _draw_and_fail
            with pytest.raises(openai.APIStatusError):
                await _ask(client, "512x512", 2)
            await platform.settled()
            assert before - (await platform.balance()).available == cost, "a failed request costs nothing"
            assert await platform.differences() == []
        await bus.close()
