"""One person's flood at one gateway leaves slots for another person of the same organisation at another gateway.

Two gateways and a worker with the counting engine, over RabbitMQ. The answers of the flood do not end while the test
runs, so that a request which waits for one of their slots fails. `python -m benchmarks.fairness` measures the times.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

import httpx
import pytest

from auth_billing.access.principal import Principal
from benchmarks.cost_of_the_check import InMemory
from gateway.admission.publish_queue import RESERVED_SHARE
from router.transport.rabbitmq import RabbitMQTransport
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.fleet import counted
from tests.fakes.paying_platform import MODEL
from tests.gateway.conftest import eventually

NOISY, QUIET = "hr_live_noisy", "hr_live_quiet"
SLOTS, BATCHES, PROMPTS = 64, 5, 64
TOKENS = 5
ANSWER_TIMEOUT = 60.0
ENDLESS = 2000

pytestmark = pytest.mark.rabbitmq


class OneOrganisation(InMemory):
    """The platform without a store, for two people of one organisation."""

    callers: ClassVar = {
        key: Principal(f"key-{key}", "organisation", "salt", user=f"user-{key}") for key in (NOISY, QUIET)
    }


async def test_a_flood_at_one_gateway_leaves_slots_for_a_person_at_another(rabbitmq_url: str, tmp_path: Path) -> None:
    def transport(name: str) -> RabbitMQTransport:
        return RabbitMQTransport(rabbitmq_url, name, publish_timeout=10)

    async with OneOrganisation(transport, "", tmp_path) as platform, httpx.AsyncClient(timeout=ANSWER_TIMEOUT) as http:
        await platform.start(gateways=2, workers=1, make_engine=lambda: CountingEngine(step_time=0.1, capacity=SLOTS))

        async def ask(key: str, gateway: int, prompts: int, tokens: int) -> httpx.Response:
            body = {"model": MODEL, "prompt": [[1, 2, 3]] * prompts, "max_tokens": tokens}
            url = f"{platform.urls[gateway]}/completions"
            return await http.post(url, json=body, headers={"authorization": f"Bearer {key}"})

        assert (await ask(QUIET, 1, 1, TOKENS)).status_code == 200
        first, (engine,) = platform.gateways[0], platform.engines
        quiet = {"organisation": {f"user-{QUIET}"}}
        await eventually(lambda: first.queues.other_gateways(MODEL).active == quiet)
        flood = [asyncio.create_task(ask(NOISY, 0, PROMPTS, ENDLESS)) for _ in range(BATCHES)]
        allowed = SLOTS - int(SLOTS * RESERVED_SHARE)
        await eventually(lambda: len(engine.requests) == allowed)
        assert first.publish_queue.waiting == BATCHES * PROMPTS - allowed
        for _ in range(3):
            answers = await asyncio.gather(*(ask(QUIET, number % 2, 1, TOKENS) for number in range(6)))
            assert [answer.status_code for answer in answers] == [200] * 6
            assert {answer.json()["choices"][0]["text"] for answer in answers} == {counted(TOKENS)}
        assert not any(batch.done() for batch in flood)
        assert {request.requester for request in engine.requests} == {f"user-{NOISY}"}
        for batch in flood:
            batch.cancel()
        await asyncio.gather(*flood, return_exceptions=True)
