"""What comes in one by one is handled in batches: what gathers for a moment, or while the one before is handled.

A busy platform costs the store few writes, and a single request has its answer before the store is busy with its
settlement. Knows nothing of what is handled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

INTERVAL = 0.25
"""Seconds from the first of a batch, and between two, or as long as one takes if that is more: requests need the store.
"""


class Batches(Generic[T]):
    """Gathers items for `handle`, which gets a task group for what need not hold up the next batch."""

    def __init__(self, handle: Callable[[list[T], asyncio.TaskGroup], Awaitable[None]]) -> None:
        self._handle = handle
        self._waiting: list[T] = []
        self._handling: list[T] | None = None

    def __len__(self) -> int:
        """How many items wait or are handled."""
        return len(self._waiting) + len(self._handling or ())

    def add(self, item: T, group: asyncio.TaskGroup) -> None:
        """Have an item handled, within a task of `group`."""
        self._waiting.append(item)
        if self._handling is None:
            self._handling = []
            group.create_task(self._handle_waiting(group))

    async def _handle_waiting(self, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        took = 0.0
        while self._waiting:
            await asyncio.sleep(max(INTERVAL, took))
            self._handling, self._waiting = self._waiting, []
            began = loop.time()
            await self._handle(self._handling, group)
            took = loop.time() - began
        self._handling = None
