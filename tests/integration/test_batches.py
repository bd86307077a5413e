"""Batches over RabbitMQ while gateways and workers are killed: every line once, billed once, memory flat.

`BATCH_LINES` sets the number of lines; with 50,000, the most that a batch may have, it takes some twenty minutes.
`BATCH_REAL=1` has the real model generate the lines, and `BATCH_KILLS` sets the number of kills.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import openai
import psutil
import pytest

from auth_billing.audit.auditor import Auditor
from auth_billing.errors import StoreUnavailable
from auth_billing.store.audit import MongoAuditStore
from tests.chaos import books
from tests.chaos.engine_stack import RealStack
from tests.chaos.installed import skip_unless_installed
from tests.chaos.stack import STORE, Size, Stack, running

REAL = os.environ.get("BATCH_REAL") == "1"
TOKENS = 16 if REAL else 12
WRONG = 5
"""Number of lines that are refused, the last ones."""
LINES = int(os.environ.get("BATCH_LINES", "605")) - WRONG
KILLS = int(os.environ.get("BATCH_KILLS", max(3, LINES // 2500)))
MEMORY_GROWTH = 48 * 2**20
"""Most bytes by which a process may grow from the first half of its life to the second."""
ENDED = ("completed", "failed", "expired", "cancelled")

pytestmark = [pytest.mark.rabbitmq, pytest.mark.store, pytest.mark.timeout(500 + LINES // (1 if REAL else 10))]


def input_file(model: str) -> bytes:
    lines = []
    for number in range(LINES + WRONG):
        messages = [{"role": "user", "content": f"count {number}"}]
        body = {"model": model, "messages": messages, "max_tokens": TOKENS, "ignore_eos": True}
        if number >= LINES:
            body["temperature"] = 9
        request = {"custom_id": f"line-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}
        lines.append(json.dumps(request))
    return "\n".join(lines).encode()


def client_of(stack: Stack, gateway: str) -> openai.AsyncOpenAI:
    url = f"http://127.0.0.1:{stack.ports[gateway]}/v1"
    return openai.AsyncOpenAI(base_url=url, api_key=stack.key, max_retries=20, timeout=30)


async def progressed(client: openai.AsyncOpenAI, id: str, completed: int) -> Any:
    """Wait until so many lines are done, or the batch has ended."""
    while True:
        batch = await client.batches.retrieve(id)
        assert batch.request_counts is not None
        if batch.request_counts.completed >= completed or batch.status in ENDED:
            return batch
        await asyncio.sleep(0.2)


async def lines_of(client: openai.AsyncOpenAI, file_id: str) -> list[dict[str, Any]]:
    content = (await client.files.content(file_id)).content
    return [json.loads(each) for each in content.splitlines()]


async def settled_tokens(stack: Stack) -> Counter[str]:
    """The generated tokens that were billed, by job, once nothing is held and as many jobs as lines have a bill.

    A job may come into the store only with its receipt, and the sweeper releases the holds of a killed gateway's jobs.
    """
    connection = stack.access.connection
    async with asyncio.timeout(240 + LINES / 50):
        while True:
            await asyncio.sleep(1.0)
            with suppress(StoreUnavailable):
                if any(account.held for account in await books.read_accounts(connection)):
                    continue
                jobs = await connection.durable("jobs").find({}).to_list(None)
                billed = Counter(
                    {each["_id"]: each["final"]["completion_tokens"] for each in jobs if each.get("final")}
                )
                if len(+billed) >= LINES and all(each["state"] == "settled" for each in jobs):
                    return billed


@asynccontextmanager
async def sampled_memory(stack: Stack) -> AsyncIterator[dict[tuple[str, int], list[int]]]:
    """Sample the resident bytes of each process every second while the context lasts; by name and process id."""
    samples: dict[tuple[str, int], list[int]] = defaultdict(list)

    async def sample() -> None:
        while True:
            for name in ("rabbitmq", STORE, "billing", *stack.gateways, *stack.workers):
                process = stack.process(name)
                if process is not None:
                    try:
                        samples[name, process.pid].append(process.memory_info().rss)
                    except psutil.NoSuchProcess:
                        continue
            await asyncio.sleep(1.0)

    task = asyncio.create_task(sample())
    try:
        yield samples
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def assert_flat(samples: dict[tuple[str, int], list[int]]) -> None:
    """Check, and print, the memory of the processes that lived for a minute or more."""
    for (name, _), sizes in sorted(samples.items()):
        half = len(sizes) // 2
        if half < 30 or name == STORE:  # the store holds the bills of all lines
            continue
        before, after = max(sizes[:half]), max(sizes[half:])
        print(f"{name}: {len(sizes)} s, {before / 2**20:.0f} MiB at most, then {after / 2**20:.0f} MiB")
        assert after - before < MEMORY_GROWTH, name


async def test_every_line_is_answered_and_billed_once_although_processes_are_killed() -> None:
    skip_unless_installed()
    async with (
        running(
            Size(gateways=2, workers=2, capacity=16, step_seconds=0.02), kind=RealStack if REAL else Stack
        ) as stack,
        client_of(stack, stack.gateways[0]) as first,
        client_of(stack, stack.gateways[1]) as second,
        sampled_memory(stack) as memory,
    ):
        file = await first.files.create(file=("in.jsonl", input_file(stack.model)), purpose="batch")
        batch = await first.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        victims = [stack.gateways[0], stack.workers[0], stack.gateways[1], stack.workers[1]]
        for number in range(KILLS):
            victim = victims[number % len(victims)]
            other = second if victim == stack.gateways[0] else first
            seen = await progressed(other, batch.id, LINES * (number + 1) // (KILLS + 2))
            assert seen.status == "in_progress", "the batch ended before its last process was killed"
            while (process := stack.process(victim)) is None:
                await asyncio.sleep(0.1)
            process.kill()
        done = await progressed(first, batch.id, LINES + 1)
        assert done.status == "completed"
        assert done.request_counts is not None
        counts = done.request_counts
        assert (counts.total, counts.completed, counts.failed) == (LINES + WRONG, LINES, WRONG)
        answers = await lines_of(first, done.output_file_id)
        assert sorted(each["custom_id"] for each in answers) == sorted(f"line-{number}" for number in range(LINES))
        for each in answers:
            body = each["response"]["body"]
            assert body["usage"]["completion_tokens"] == TOKENS
            assert REAL or body["choices"][0]["message"]["content"].startswith("0 1 2 ")
        errors = await lines_of(second, done.error_file_id)
        assert {each["custom_id"] for each in errors} == {f"line-{LINES + number}" for number in range(WRONG)}
        billed = await settled_tokens(stack)
        assert sum(billed.values()) == LINES * TOKENS
        assert len(+billed) == LINES
        assert (await Auditor(MongoAuditStore(stack.access.connection), pause=0.5).audit()).differences == []
        assert_flat(memory)
