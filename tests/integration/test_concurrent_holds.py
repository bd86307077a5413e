"""64 concurrent requests with credit for one: one is answered, 63 are refused, the balance is never negative."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import openai
import pytest

from auth_billing.development_account import ORGANISATION
from router.timings import Timings
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.paying_platform import MODEL, PayingPlatform

CLIENTS = 64


@pytest.mark.store
async def test_the_last_cent_is_spent_once(database_url: str, tmp_path: Path) -> None:
    timings = Timings(reserve_timeout=60.0)  # the store's speed is not tested here
    broker = MemoryBroker()
    transports = partial(MemoryTransport, broker)
    async with PayingPlatform(transports, database_url, tmp_path, timings) as platform:
        await platform.start(gateways=2, workers=1, make_engine=lambda: CountingEngine(step_time=0.01))
        clients = [platform.client(number) for number in range(2)]
        await _ask(clients[0])
        await platform.settled()
        (job,) = await platform.documents("jobs")
        # Enough for the hold of one such request, a nano-USD too little for two.
        accounts = platform.connection.durable("accounts")
        await accounts.update_one({"_id": ORGANISATION}, {"$set": {"available": 2 * job["hold"] - 1}})
        seen: list[int] = []
        looking = asyncio.create_task(_look(platform, seen))
        results = await asyncio.gather(
            *(_ask(clients[number % 2]) for number in range(CLIENTS)), return_exceptions=True
        )
        await platform.settled()
        looking.cancel()
        refused = [each for each in results if isinstance(each, openai.RateLimitError)]
        assert [each.code for each in refused] == ["insufficient_quota"] * (CLIENTS - 1)
        assert [each for each in results if each not in refused] == [None]
        assert min(seen) >= 0
        assert (await platform.balance()).available == 2 * job["hold"] - 1 - job["cost"]


async def _ask(client: openai.AsyncOpenAI) -> None:
    answer = await client.completions.create(model=MODEL, prompt=[1, 2, 3], max_tokens=50)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 50


async def _look(platform: PayingPlatform, seen: list[int]) -> None:
    """Poll the balance."""
    while True:
        seen.append((await platform.balance()).available)
        await asyncio.sleep(0.005)
