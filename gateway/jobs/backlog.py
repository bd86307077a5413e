"""What must be done sometime, by whoever is away now: kept in order, tried until it is done, in the background."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

from tenacity.wait import wait_base

from runtime.retry import DEFAULT_WAIT, Backoff

T = TypeVar("T")

BATCH = 128


class Backlog(Generic[T]):
    """Things to do. `do` is given some of them, and returns those that were not done and are to be tried again."""

    def __init__(
        self, do: Callable[[Sequence[T]], Awaitable[Sequence[T]]], *, retry_wait: wait_base = DEFAULT_WAIT
    ) -> None:
        self._do = do
        self._backoff = Backoff(retry_wait)
        self._left: deque[T] = deque()
        self._some = asyncio.Event()
        self._none = asyncio.Event()
        self._none.set()

    def __len__(self) -> int:
        return len(self._left)

    def add(self, things: Iterable[T]) -> None:
        """More to do."""
        self._left.extend(things)
        if self._left:
            self._some.set()
            self._none.clear()

    async def run(self) -> None:
        """Do what comes, for ever."""
        while True:
            await self._some.wait()
            batch = [self._left[number] for number in range(min(BATCH, len(self._left)))]
            undone = await self._do(batch)
            for _ in batch:  # not before: who asks how much is left is told of what is being done too
                self._left.popleft()
            self._left.extendleft(reversed(undone))
            if not self._left:
                self._some.clear()
                self._none.set()
            if undone:
                await self._backoff.sleep()
            else:
                self._backoff.reset()

    async def emptied(self, seconds: float) -> bool:
        """Wait until nothing is left to do; false if something is after so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._none.wait()
        except TimeoutError:
            return False
        return True
