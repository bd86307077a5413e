"""A request with an idempotency key, sent to two gateways at once over RabbitMQ and the store: one run, one bill."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from router.transport.base import Transport
from router.transport.memory import MemoryBroker, MemoryTransport
from router.transport.rabbitmq import RabbitMQTransport
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.paying_platform import MODEL, PayingPlatform

TOKENS = 120

pytestmark = pytest.mark.store


@pytest.fixture(params=["memory", pytest.param("rabbitmq", marks=pytest.mark.rabbitmq)])
def make_transport(request: pytest.FixtureRequest) -> Callable[[str], Transport]:
    broker = MemoryBroker()
    url = request.getfixturevalue("rabbitmq_url") if request.param == "rabbitmq" else ""
    return lambda name: RabbitMQTransport(url, name, publish_timeout=10) if url else MemoryTransport(broker, name)


async def test_requests_at_both_gateways_get_the_same_answer_and_are_billed_once(
    make_transport: Callable[[str], Transport], database_url: str, tmp_path: Path
) -> None:
    async with PayingPlatform(make_transport, database_url, tmp_path) as platform:
        await platform.start(gateways=2, workers=1, make_engine=lambda: CountingEngine(step_time=0.01))
        async with httpx.AsyncClient(headers={"authorization": f"Bearer {platform.key}"}, timeout=60) as http:

            async def ask(number: int, gateway: int, **fields: Any) -> httpx.Response:
                body = {"model": MODEL, "max_tokens": TOKENS, "messages": [{"role": "user", "content": "hi"}], **fields}
                url = f"{platform.urls[gateway]}/chat/completions"
                return await http.post(url, json=body, headers={"idempotency-key": f"key-{number}"})

            options: list[dict[str, Any]] = [{}, {"stream": True, "stream_options": {"include_usage": True}}]
            for number, fields in enumerate(options):
                first = asyncio.create_task(ask(number, 0, **fields))
                await asyncio.sleep(0.3)
                answers = [*await asyncio.gather(ask(number, 1, **fields), ask(number, 1, **fields)), await first]
                assert [answer.status_code for answer in answers] == [200] * 3
                assert len({_without_comments(answer.content) for answer in answers}) == 1
                assert sum("idempotent-replayed" in answer.headers for answer in answers) == 2
        await platform.settled()
        jobs = await platform.documents("jobs")
        assert [job["final"]["completion_tokens"] for job in jobs] == [TOKENS] * len(options)
        stored = {record["_id"]: record["answer"]["usage"] for record in await platform.documents("idempotency")}
        for job in jobs:
            told = stored[job["idempotency"]][job["_id"]]
            assert told == {name: job["final"][name] for name in told}
        assert await platform.differences() == []


def _without_comments(body: bytes) -> bytes:
    """Return a body without keep-alive comments: each connection gets its own, after a second without an event."""
    return b"".join(line for line in body.split(b"\n\n") if not line.startswith(b":"))
