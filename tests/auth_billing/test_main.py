"""The billing process: one-line start-up errors, and its work with the permissions of its production broker user."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from typing import Any

import httpx
import pytest

from auth_billing.__main__ import serve
from auth_billing.settings import BillingSettings
from auth_billing.store.connection import StoreConnection
from infra.launcher.readiness import free_port
from router import messages, topology
from router.bus import Bus
from router.messages import Job, TextPrompt
from router.transport.base import Outgoing
from router.transport.rabbitmq import RabbitMQTransport
from runtime.lifecycle import StartupError
from tests.auth_billing.money.test_usage_records import record
from tests.child_process import NodeProcess
from tests.fakes.jobs import make_job

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({}, "HEADRACE_AMQP_URL is not set"),
        ({"amqp_url": f"amqp://{NOWHERE}/"}, "HEADRACE_MONGODB_URL is not set"),
        ({"amqp_url": f"amqp://{NOWHERE}/", "mongodb_url": "http://x"}, "HEADRACE_MONGODB_URL is not a MongoDB URL"),
        ({"amqp_url": f"amqp://{NOWHERE}/", "mongodb_url": f"mongodb://{NOWHERE}"}, "the store does not answer"),
    ],
)
async def test_a_missing_setting_is_a_one_line_error(given: dict[str, Any], line: str) -> None:
    with pytest.raises(StartupError, match=line) as caught:
        await serve(BillingSettings(**given), asyncio.Event())
    assert "\n" not in str(caught.value)


@pytest.mark.rabbitmq
@pytest.mark.store
async def test_it_settles_a_record_and_closes_a_dead_lettered_job(
    rabbitmq_node: NodeProcess, database_url: str
) -> None:
    port, stop = free_port(), asyncio.Event()
    settings = BillingSettings(amqp_url=rabbitmq_node.amqp_url("billing"), mongodb_url=database_url, ops_port=port)
    serving = asyncio.create_task(serve(settings, stop))
    transport = RabbitMQTransport(rabbitmq_node.amqp_url("worker"), "worker-1", publish_timeout=10)
    worker, connection = Bus(transport), StoreConnection(database_url, operation_ms=20_000)
    await worker.start(declares_platform=False)
    used = record(job=f"chatcmpl-{uuid.uuid4().hex}")
    dead = dead_job()
    try:
        await worker.publish_settlement(used)
        await transport.publish(
            Outgoing(
                topology.DEAD_LETTERS_EXCHANGE,
                topology.dead_job_routing_key("m"),
                messages.encode(dead),
                persistent=True,
            )
        )
        stored = await both_stored(connection, used.job, dead.id)
        assert stored[used.job]["usage"]["completion_tokens"] == used.usage.completion_tokens
        assert (stored[dead.id]["outcome"], stored[dead.id]["worker"]) == ("failed", messages.REAPER)
        async with httpx.AsyncClient(trust_env=False) as client:
            status = json.loads((await client.get(f"http://127.0.0.1:{port}/status")).text)
        assert status["broker"] == "up"
        assert status["settled"] >= 1
    finally:
        stop.set()
        await serving
        await worker.close()
        connection.close()


def dead_job() -> Job:
    now = time.time()
    return make_job(
        f"cmpl-{uuid.uuid4().hex}",
        reply_to="gateway-that-has-gone",
        created=now,
        deadline=now + 60,
        prompt=TextPrompt("hello"),
    )


async def both_stored(connection: StoreConnection, *jobs: str) -> dict[str, dict[str, Any]]:
    """Return the usage documents of `jobs` once all exist."""
    async with asyncio.timeout(30):
        while True:
            query = {"job": {"$in": list(jobs)}}
            found = {each["job"]: each async for each in connection.durable("usage").find(query)}
            if len(found) == len(jobs):
                return found
            await asyncio.sleep(0.05)
