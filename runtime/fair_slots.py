"""Slots that several owners share: who asks for many does not delay the others by more than a turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSlots:
    """A semaphore whose waiting owners take turns; use it on one event loop."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Those that wait, by owner; the owner whose turn is next comes first."""

    @asynccontextmanager
    async def take(self, owner: str) -> AsyncIterator[None]:
        """Hold a slot for `owner` while the block runs; wait until one is free and it is the owner's turn."""
        if self._free:
            self._free -= 1
        else:
            await self._turn(owner)
        try:
            yield
        finally:
            self._pass_on()

    async def _turn(self, owner: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give a slot to the next owner that waits, who then is the last in turn."""
        while self._waiting:
            owner = next(iter(self._waiting))
            turns = self._waiting.pop(owner)
            turn = turns.popleft()
            if turns:
                self._waiting[owner] = turns
            if not turn.cancelled():
                turn.set_result(None)
                return
        self._free += 1
