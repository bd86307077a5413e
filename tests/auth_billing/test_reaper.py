"""Dead-lettered jobs: the caller is notified once, nothing is charged, undecodable jobs are kept for inspection."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from tenacity import wait_fixed

from auth_billing.reaper import Reaper
from router import messages, topology
from router.dead_letters import DeadLetters
from router.messages import REAPER, ChatPrompt, Failed, FailureCode, Job, Outcome, ServiceClass, UsageRecord
from router.transport.base import Outgoing
from router.transport.memory import MemoryTransport
from tests.auth_billing.conftest import Buses, Eventually
from tests.fakes.jobs import make_job

MODEL = "m"


def job(number: int = 0, *, seconds: float = 60) -> Job:
    now = time.time()
    return make_job(
        f"chatcmpl-{number}",
        model=MODEL,
        reply_to="gateway-1",
        created=now,
        deadline=now + seconds,
        prompt=ChatPrompt(messages=[{"role": "user", "content": "hello"}]),
    )


@asynccontextmanager
async def reaping(buses: Buses) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(Reaper(buses.billing, retry_wait=wait_fixed(0.001)).run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def operator(buses: Buses) -> MemoryTransport:
    transport = MemoryTransport(buses.broker, "operator")
    await transport.start()
    return transport


async def put_dead(buses: Buses, body: bytes) -> None:
    transport = await operator(buses)
    await transport.publish(
        Outgoing(topology.DEAD_LETTERS_EXCHANGE, topology.dead_job_routing_key(MODEL), body, persistent=True)
    )


async def die(buses: Buses, how: str) -> None:
    """Dead-letter a job in the way that `how` names."""
    await buses.others.declare_model(MODEL)
    await buses.others.publish_job(job(seconds=0.02 if how == "expired" else 60), {})
    if how == "expired":
        return
    inbound = await buses.others.jobs(MODEL, ServiceClass.DEFAULT, prefetch=1)
    async for envelope in inbound:
        envelope.delivery.reject(requeue=how == "delivery_limit")
        if how == "rejected" or envelope.delivery.delivery_count >= topology.JOB_DELIVERY_LIMIT:
            break
    await inbound.cancel()


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("expired", FailureCode.DEADLINE_EXCEEDED),
        ("delivery_limit", FailureCode.FAILED_REPEATEDLY),
        ("rejected", FailureCode.ENGINE_ERROR),
    ],
)
async def test_a_dead_lettered_job_ends_in_one_failure_and_a_zero_usage_record(
    buses: Buses, eventually: Eventually, how: str, code: FailureCode
) -> None:
    windows = await buses.others.replies("gateway-1")
    async with reaping(buses):
        await die(buses, how)
        window = await asyncio.wait_for(anext(aiter(windows)), 20)
        await eventually(lambda: len(buses.broker.queue(topology.DEAD_QUEUE)) == 0)
    (failed,) = window.replies
    assert isinstance(failed, Failed)
    assert (window.worker_id, failed.job_id, failed.code) == (REAPER, "chatcmpl-0", code)
    assert len(buses.broker.queue(topology.SETTLE_QUEUE)) == 1
    usage = await buses.others.settlements(prefetch=1)
    record = (await anext(aiter(usage))).message
    assert isinstance(record, UsageRecord)
    assert (record.job, record.attempt, record.outcome, record.error) == (
        "chatcmpl-0",
        failed.attempt_id,
        Outcome.FAILED,
        code,
    )
    assert (record.usage.prompt_tokens, record.usage.completion_tokens) == (0, 0)
    async with DeadLetters(buses.billing) as letters:
        kept = [letter async for letter in letters]
    assert [(letter.id, letter.code, letter.closed_by) for letter in kept] == (
        [] if how == "expired" else [("chatcmpl-0", code, REAPER)]
    )


async def test_a_job_reaped_twice_has_the_same_attempt_id(buses: Buses, eventually: Eventually) -> None:
    async with reaping(buses):
        for _ in range(2):
            await put_dead(buses, messages.encode(job()))
        await eventually(lambda: len(buses.broker.queue(topology.SETTLE_QUEUE)) == 2)
    usage = aiter(await buses.others.settlements(prefetch=2))
    assert len({cast(UsageRecord, (await anext(usage)).message).attempt for _ in range(2)}) == 1


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'{"v":9}'])
async def test_an_undecodable_job_is_kept_for_inspection(buses: Buses, eventually: Eventually, body: bytes) -> None:
    async with reaping(buses):
        await put_dead(buses, body)
        await eventually(lambda: len(buses.broker.queue(topology.DIAGNOSED_QUEUE)) == 1)
    assert len(buses.broker.queue(topology.DEAD_QUEUE)) == 0
    kept = await (await operator(buses)).consume(topology.DIAGNOSED_QUEUE, prefetch=1)
    assert (await anext(aiter(kept))).body == body


@pytest.mark.parametrize("forged", [{"id": "x" * 256}, {"id": ""}, {"copy_number": 10**400}, {"copy_number": -1}])
async def test_a_forged_job_is_kept_for_inspection_and_stops_no_reaping(
    buses: Buses, eventually: Eventually, forged: dict[str, Any]
) -> None:
    body = json.loads(messages.encode(job()))
    body |= {"id": forged["id"]} if "id" in forged else {"attempt": forged["copy_number"]}
    async with reaping(buses):
        await put_dead(buses, json.dumps(body).encode())
        await put_dead(buses, messages.encode(job(1)))
        await eventually(lambda: len(buses.broker.queue(topology.DIAGNOSED_QUEUE)) == 2)
    assert len(buses.broker.queue(topology.SETTLE_QUEUE)) == 1


async def test_the_caller_of_an_undecodable_job_is_notified_if_its_address_is_readable(buses: Buses) -> None:
    windows = await buses.others.replies("gateway-1")
    async with reaping(buses):
        await put_dead(buses, b'{"v":9,"id":"chatcmpl-9","reply_to":"gateway-1","new":"field"}')
        window = await asyncio.wait_for(anext(aiter(windows)), 20)
    (failed,) = window.replies
    assert isinstance(failed, Failed)
    assert (failed.job_id, failed.code) == ("chatcmpl-9", FailureCode.UNDECODABLE)
