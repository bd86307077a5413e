"""Counting worker processes on RabbitMQ: many streams, a drain, empty queues at the end."""

from __future__ import annotations

import asyncio
import signal
import sys
import time

import pytest

from inference_worker.worker.worker import capacity
from router.bus import Bus
from router.messages import ChatPrompt, Delta, Finished, Job, SamplingParams, Started, Terminal, UsageRecord
from router.transport.rabbitmq import RabbitMQTransport
from tests.fakes.jobs import make_job

MODEL = "counting-d"
JOBS = 24

pytestmark = pytest.mark.rabbitmq


def job(number: int, max_tokens: int) -> Job:
    return make_job(
        f"j{number}",
        model=MODEL,
        reply_to="gateway-d",
        created=time.time(),
        deadline=time.time() + 60,
        prompt=ChatPrompt(messages=[{"role": "user", "content": "count"}]),
        sampling=SamplingParams(seed=1, max_tokens=max_tokens),
    )


async def worker_process(url: str, name: str) -> asyncio.subprocess.Process:
    command = ["-m", "tests.fakes.counting_worker", "--amqp-url", url, "--id", name, "--model", MODEL]
    return await asyncio.create_subprocess_exec(sys.executable, *command, "--capacity", "8", "--step-time", "0.02")


async def test_two_workers_share_a_queue_while_one_drains(rabbitmq_url: str) -> None:
    bus = Bus(RabbitMQTransport(rabbitmq_url, name="gateway-d", publish_timeout=10))
    await bus.start()
    await bus.declare_model(MODEL)
    inbox, statuses = await bus.replies("gateway-d"), await bus.statuses()
    usage = await bus.settlements(prefetch=100)
    workers = [await worker_process(rabbitmq_url, name) for name in ("worker-d1", "worker-d2")]
    try:
        async with asyncio.timeout(60):
            seen: set[str] = set()
            async for status in statuses:
                seen.add(status.worker)
                if len(seen) == 2:
                    break
            await asyncio.gather(*(bus.publish_job(job(number, 40), {}) for number in range(JOBS)))
            texts: dict[str, str] = {}
            ended: list[Terminal] = []
            begun = 0
            async for window in inbox:
                for reply in window.replies:
                    if isinstance(reply, Started) and window.worker_id == "worker-d1":
                        begun += 1
                        if begun == capacity(8):  # its capacity, so that no job is handed back and must be resumed
                            workers[0].send_signal(signal.SIGTERM)
                    elif isinstance(reply, Delta):
                        texts[reply.job_id] = texts.get(reply.job_id, "") + reply.text
                    elif isinstance(reply, Terminal):
                        ended.append(reply)
                if len(ended) == JOBS:
                    break
            assert await workers[0].wait() == 0
            records: list[UsageRecord] = []
            async for envelope in usage:
                assert isinstance(envelope.message, UsageRecord)
                records.append(envelope.message)
                envelope.delivery.ack()
                if len(records) == JOBS:
                    break
        assert all(isinstance(terminal, Finished) for terminal in ended)
        assert set(texts.values()) == {"".join(f"{number} " for number in range(40))}
        assert {record.usage.completion_tokens for record in records} == {40}
        assert {record.job for record in records} == texts.keys()
        assert {record.worker for record in records} == {"worker-d1", "worker-d2"}
        workers[1].send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(workers[1].wait(), 20) == 0
    finally:
        for process in workers:
            if process.returncode is None:
                process.kill()
                await process.wait()
        await bus.close()


async def test_no_broker_is_one_line() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *["-m", "inference_worker"],
        env={"HEADRACE_AMQP_URL": "amqp://127.0.0.1:1/", "HEADRACE_MODEL": "/nowhere", "PATH": "/usr/bin:/bin"},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == 78
    assert said.decode().startswith("headrace: ")
    assert said.count(b"\n") == 1
