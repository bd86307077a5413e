"""Ten times a worker's capacity: each request is answered in full or refused at once, and refusals cost nothing.

A gateway and a real worker with the counting engine, in memory. `make overload` measures the times.
"""

from __future__ import annotations

import asyncio

import httpx

from router.transport.memory import MemoryTransport
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.fleet import MODEL, FleetWorker, counted
from tests.gateway.conftest import HI, eventually, stage

SLOTS, TOKENS = 4, 10
WAVES, WAVE = 4, 60


async def test_requests_at_ten_times_the_capacity() -> None:
    async with stage(max_wait=0.5) as set_up:
        transport = MemoryTransport(set_up.broker, "worker-9")
        await transport.start()
        worker = FleetWorker(transport, "worker-9", CountingEngine(step_time=0.01, capacity=SLOTS))
        await eventually(lambda: (model := set_up.gateway.models.find(MODEL)) is not None and model.workers == 1)

        async def ask(number: int) -> httpx.Response:
            body = {"model": MODEL, "messages": HI, "max_tokens": TOKENS, "stream": number % 2 == 1}
            return await set_up.client.post("/v1/chat/completions", json=body)

        asked = []
        for _ in range(WAVES):
            asked += [asyncio.create_task(ask(number)) for number in range(WAVE)]
            await asyncio.sleep(0.15)
        answers = await asyncio.gather(*asked)
        good = [answer for answer in answers if answer.status_code == 200]
        refused = [answer for answer in answers if answer.status_code == 503]
        assert len(good) + len(refused) == WAVES * WAVE
        assert len(good) >= SLOTS
        assert len(refused) >= WAVE - SLOTS - 4 * SLOTS  # the first wave: the worker is not measured yet
        for answer in refused:
            assert answer.json()["error"]["code"] == "overloaded"
            assert 1 <= int(answer.headers["retry-after"]) <= 60
        for answer in good:
            if answer.headers["content-type"].startswith("text/event-stream"):
                assert answer.text.endswith("data: [DONE]\n\n")
            else:
                assert answer.json()["choices"][0]["message"]["content"] == counted(TOKENS)
        assert len(set_up.billing.held) == len(good)
        assert worker.engine.counted.total() == TOKENS * len(good)
        await eventually(lambda: set_up.gateway.queues.report({}).queues == [])
        await worker.end()
        await transport.close()
