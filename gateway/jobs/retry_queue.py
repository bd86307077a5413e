"""Queue of background work, such as receipts to publish, which is retried in order until it is done."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

from tenacity.wait import wait_base

from runtime.retry import DEFAULT_WAIT, Backoff

T = TypeVar("T")

BATCH = 128


class RetryQueue(Generic[T]):
    """Queue of items for `process`, which takes a batch and returns the items to retry, after `retry_wait`."""

    def __init__(
        self, process: Callable[[Sequence[T]], Awaitable[Sequence[T]]], *, retry_wait: wait_base = DEFAULT_WAIT
    ) -> None:
        self._process = process
        self._backoff = Backoff(retry_wait)
        self._items: deque[T] = deque()
        self._not_empty = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._items)

    def add(self, items: Iterable[T]) -> None:
        """Append items of work to the queue; `run` processes them in the background."""
        self._items.extend(items)
        if self._items:
            self._not_empty.set()
            self._empty.clear()

    async def run(self) -> None:
        """Process queued items of work in batches, in order, retrying those that fail, until cancelled."""
        while True:
            await self._not_empty.wait()
            batch = [self._items[number] for number in range(min(BATCH, len(self._items)))]
            failed = await self._process(batch)
            for _ in batch:  # only now: `len` counts items in progress too
                self._items.popleft()
            self._items.extendleft(reversed(failed))
            if not self._items:
                self._not_empty.clear()
                self._empty.set()
            if failed:
                await self._backoff.sleep()
            else:
                self._backoff.reset()

    async def wait_until_empty(self, seconds: float) -> bool:
        """Wait at most `seconds` until all queued items are processed; return whether they are."""
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True
