"""Batches over RabbitMQ while gateways are killed: every line once, billed once, the books clean."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import openai
import pytest

from auth_billing.audit.auditor import Auditor
from auth_billing.store.audit import MongoAuditStore
from tests.chaos.installed import skip_unless_installed
from tests.chaos.stack import MODEL, Size, Stack, running

pytestmark = [pytest.mark.rabbitmq, pytest.mark.store, pytest.mark.timeout(400)]

LINES, TOKENS = 600, 12
WRONG = 5
"""Number of further lines that are refused."""


def input_file() -> bytes:
    lines = []
    for number in range(LINES + WRONG):
        body = {"model": MODEL, "messages": [{"role": "user", "content": f"count {number}"}], "max_tokens": TOKENS}
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
        if batch.request_counts.completed >= completed or batch.status in ("completed", "failed"):
            return batch
        await asyncio.sleep(0.2)


async def lines_of(client: openai.AsyncOpenAI, file_id: str) -> list[dict[str, Any]]:
    content = (await client.files.content(file_id)).content
    return [json.loads(each) for each in content.splitlines()]


async def settled_tokens(stack: Stack) -> Counter[str]:
    """The generated tokens that were billed, by job, once nothing is held and as many jobs as lines have a bill.

    A job may come into the store only with its receipt.
    """
    jobs = stack.access.connection.durable("jobs")
    async with asyncio.timeout(120):
        while True:
            held = await jobs.count_documents({"state": {"$ne": "settled"}})
            if not held and await jobs.count_documents({"final.completion_tokens": {"$gt": 0}}) >= LINES:
                break
            await asyncio.sleep(0.5)
    found = await jobs.find({}).to_list(None)
    return Counter({each["_id"]: each["final"]["completion_tokens"] for each in found if each.get("final")})


async def test_every_line_is_answered_and_billed_once_although_gateways_are_killed() -> None:
    skip_unless_installed()
    async with (
        running(Size(gateways=2, workers=2, capacity=16, step_seconds=0.02)) as stack,
        client_of(stack, stack.gateways[0]) as first,
        client_of(stack, stack.gateways[1]) as second,
    ):
        file = await first.files.create(file=("in.jsonl", input_file()), purpose="batch")
        batch = await first.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        for completed, gateway, other in ((40, 0, second), (200, 1, first)):
            seen = await progressed(other, batch.id, completed)
            assert seen.status == "in_progress", "the batch ended before its gateway was killed"
            process = stack.process(stack.gateways[gateway])
            assert process is not None
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
            assert body["choices"][0]["message"]["content"].startswith("0 1 2 ")
        errors = await lines_of(second, done.error_file_id)
        assert {each["custom_id"] for each in errors} == {f"line-{LINES + number}" for number in range(WRONG)}
        billed = await settled_tokens(stack)
        assert sum(billed.values()) == LINES * TOKENS
        assert sum(tokens > 0 for tokens in billed.values()) == LINES
        assert (await Auditor(MongoAuditStore(stack.access.connection), pause=0.5).audit()).differences == []
