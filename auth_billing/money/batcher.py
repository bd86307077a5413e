"""Collects single items (usage records, receipts) that arrive within a short interval, and handles them as one batch.

A busy platform then costs the store few writes, and a single request is answered before its settlement uses the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

INTERVAL = 0.25
"""Least seconds from a batch's first item to its handling, and between two batches. A batch that took longer to handle
is followed by a pause as long as itself, because requests need the store too."""


class Batcher(Generic[T]):
    """Collects items and passes them to `handle` in batches.

    `handle` also gets a task group, for work that must not delay the next batch.
    """

    def __init__(self, handle: Callable[[list[T], asyncio.TaskGroup], Awaitable[None]]) -> None:
        self._handle = handle
        self._waiting: list[T] = []
        self._handling: list[T] | None = None

    def __len__(self) -> int:
        """Return how many items wait or are being handled."""
        return len(self._waiting) + len(self._handling or ())

    def add(self, item: T, group: asyncio.TaskGroup) -> None:
        """Add one item to the next batch, without waiting for its handling.

        Unless a task does so already, start a task in `group` that passes the collected items to `handle`, batch by
        batch.
        """
        self._waiting.append(item)
        if self._handling is None:
            self._handling = []
            group.create_task(self._handle_batches(group))

    async def _handle_batches(self, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        took = 0.0
        while self._waiting:
            await asyncio.sleep(max(INTERVAL, took))
            self._handling, self._waiting = self._waiting, []
            began = loop.time()
            await self._handle(self._handling, group)
            took = loop.time() - began
        self._handling = None
