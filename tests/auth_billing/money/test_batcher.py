"""Batching: items that arrive within the interval, or while a batch is handled, are handled together."""

from __future__ import annotations

import asyncio

import pytest

from auth_billing.money import batcher
from auth_billing.money.batcher import Batcher


@pytest.fixture(autouse=True)
def _short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batcher, "INTERVAL", 0.01)


async def test_items_of_one_interval_are_one_batch_and_later_ones_the_next() -> None:
    batches: list[list[int]] = []
    handled = asyncio.Event()

    async def handle(batch: list[int], group: asyncio.TaskGroup) -> None:
        batches.append(batch)
        if len(batches) == 1:
            items.add(3, group)  # arrives while the first batch is handled
            assert len(items) == 3
        else:
            handled.set()

    items = Batcher(handle)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for item in (1, 2):
            items.add(item, group)
        await handled.wait()
    assert batches == [[1, 2], [3]]
    assert len(items) == 0


async def test_a_new_item_starts_a_batch_after_a_pause_without_items() -> None:
    batches: list[list[int]] = []

    async def handle(batch: list[int], group: asyncio.TaskGroup) -> None:
        batches.append(batch)

    items = Batcher(handle)
    for item in (1, 2):
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            items.add(item, group)
    assert batches == [[1], [2]]


async def test_an_error_of_the_handler_ends_the_task_group() -> None:
    async def handle(batch: list[int], group: asyncio.TaskGroup) -> None:
        raise RuntimeError("broken")

    with pytest.raises(ExceptionGroup):
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            Batcher(handle).add(1, group)
