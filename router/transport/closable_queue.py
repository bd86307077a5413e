"""Queue, on one event loop, from a transport to the one reader of a consumer or subscription; its end can be marked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

T = TypeVar("T")


class ClosableQueue(Generic[T]):
    """FIFO queue for one reader; iteration ends after `close` and the items put before that."""

    def __init__(self) -> None:
        self._items: asyncio.Queue[T | None] = asyncio.Queue()

    def put(self, item: T) -> None:
        """Append one received message for the reader."""
        self._items.put_nowait(item)

    def close(self) -> None:
        """Mark the end: the reader's iteration ends after the items put so far. Idempotent."""
        self._items.put_nowait(None)

    def pop_oldest(self) -> T | None:
        """Remove and return the oldest item that the reader has not taken; `None` if there is none."""
        return None if self._items.empty() else self._items.get_nowait()

    async def __aiter__(self) -> AsyncIterator[T]:
        while (item := await self._items.get()) is not None:
            yield item
        self._items.put_nowait(None)  # ends a later iteration too
