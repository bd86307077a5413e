"""The retry queue processes items in order, until each has succeeded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tenacity import wait_fixed

from gateway.jobs.retry_queue import BATCH, RetryQueue


async def test_failed_items_are_retried_before_later_ones() -> None:
    batches: list[list[int]] = []
    failures = {2}

    async def process(batch: Sequence[int]) -> Sequence[int]:
        batches.append(list(batch))
        failed = [each for each in batch if each in failures]
        failures.clear()
        return failed

    queue = RetryQueue(process, retry_wait=wait_fixed(0))
    queue.add([1, 2, 3])
    running = asyncio.create_task(queue.run())
    assert await queue.wait_until_empty(1.0)
    queue.add([])
    assert await queue.wait_until_empty(1.0)
    running.cancel()
    assert batches == [[1, 2, 3], [2]]


async def test_items_in_progress_count_as_queued() -> None:
    proceed = asyncio.Event()

    async def process(_batch: Sequence[int]) -> Sequence[int]:
        await proceed.wait()
        return ()

    queue = RetryQueue(process)
    queue.add(range(BATCH + 1))
    running = asyncio.create_task(queue.run())
    assert not await queue.wait_until_empty(0.01)
    assert len(queue) == BATCH + 1
    proceed.set()
    assert await queue.wait_until_empty(1.0)
    running.cancel()
    assert len(queue) == 0
