"""A queue that can end: what a consumer or subscription has received and nobody has read yet.

One reader, on the event loop; knows nothing of the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """Items in order; iterating ends after `end` when all items before it have been read."""

    def __init__(self) -> None:
        self._items: asyncio.Queue[T | None] = asyncio.Queue()

    def put(self, item: T) -> None:
        """Add an item."""
        self._items.put_nowait(item)

    def end(self) -> None:
        """No more items; may be called again."""
        self._items.put_nowait(None)

    def pop_oldest(self) -> T | None:
        """Take the oldest unread item out, if there is one."""
        return None if self._items.empty() else self._items.get_nowait()

    async def __aiter__(self) -> AsyncIterator[T]:
        while (item := await self._items.get()) is not None:
            yield item
        self._items.put_nowait(None)  # a later reader ends too
