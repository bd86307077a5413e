"""A client that leaves in any phase of an assistant's answer ends its child jobs, and pays for what was delivered."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from router.transport.memory import MemoryBroker, MemoryTransport
from tests.fakes.assistant_process import ASSISTANT, AssistantProcess, talents
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.fleet import FleetWorker, until
from tests.fakes.paying_platform import PayingPlatform

DELIVERED = 3
"""Tokens of an answer before its client leaves."""
MESSAGES = [
    {"role": "user", "content": "weather in Krakow?"},
    {"role": "assistant", "content": "It is 20 degrees in Krakow."},
    {"role": "user", "content": "and tomorrow?"},
]

pytestmark = [pytest.mark.store]


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_client_that_leaves_pays_for_what_was_delivered(
    database_url: str, tmp_path: Path, streamed: bool
) -> None:
    broker, shared, engine = MemoryBroker(), talents(), CountingEngine(step_time=None)
    router, tool = shared.router.gate, shared.tool("weather")
    async with PayingPlatform(partial(MemoryTransport, broker), database_url, tmp_path) as platform:
        bus, other = MemoryTransport(broker, "worker-1"), MemoryTransport(broker, "assistant-1")
        await bus.start()
        await other.start()
        worker = FleetWorker(bus, "worker-1", engine)
        await platform.start(gateways=1, workers=0, make_engine=CountingEngine)
        assistant = await AssistantProcess(other, "assistant-1", shared).start()
        await until(lambda: platform.gateways[0].models.find(ASSISTANT))
        headers = {"authorization": f"Bearer {platform.key}"}
        body = {"model": ASSISTANT, "messages": MESSAGES, "max_tokens": 100, "stream": streamed}
        url = f"{platform.urls[0]}/chat/completions"

        async def leave(arrived: Any, before_leaving: Any = None) -> None:
            """Ask, and leave once the answer is in a phase."""
            async with httpx.AsyncClient(headers=headers, timeout=60) as http:
                asking = asyncio.create_task(_read(http, url, body))
                await until(lambda: arrived() or asking.done())
                if before_leaving is not None:
                    await before_leaving()
                asking.cancel()
                await asyncio.wait([asking])
            await until(lambda: not assistant.answering)

        async def deliver() -> None:
            engine.step(DELIVERED)
            requests = platform.gateways[0].billing._requests
            await until(lambda: any(each.so_far.completion_tokens == DELIVERED for each in requests))

        router.shut()
        await leave(lambda: shared.router.questions)
        router.open()
        tool.gate.shut()
        await leave(lambda: tool.contexts)
        assert tool.stopped == 1
        tool.gate.open()
        await leave(lambda: engine.requests, deliver)
        await until(lambda: engine.aborted)
        engine.step(5)
        assert engine.counted.total() == DELIVERED, "nothing is computed after the cancel"

        await platform.settled()
        jobs = sorted(await platform.documents("jobs"), key=lambda job: job["created"])
        bills = [
            (job["final"]["completion_tokens"], [part["model"] for part in job["final"].get("parts", ())])
            for job in jobs
        ]
        assert bills == [(0, []), (0, []), (DELIVERED, ["tool.weather"])]
        assert jobs[0]["cost"] == jobs[1]["cost"] == 0
        assert await platform.differences() == []
        await assistant.end()
        await worker.end()
        await bus.close()
        await other.close()


async def _read(http: httpx.AsyncClient, url: str, body: dict[str, Any]) -> None:
    async with http.stream("POST", url, json=body) as answer:
        async for _ in answer.aiter_lines():
            pass
