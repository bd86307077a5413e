"""The thread that pika lives in, and the mailboxes between it and the application's event loop.

Knows no AMQP. This is all the cross-thread code there is: everything else runs on one loop or the other.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

_JOIN_SECONDS = 5.0


class Mailbox:
    """Calls to be made on another thread's loop, in order; many of them wake it up once.

    `put` adds before it looks at the flag, `_drain` clears the flag before it takes: a call that finds the flag
    set is therefore always seen by the drain that the flag stands for.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[Callable[[], None]] = deque()
        self._awake = False

    def put(self, call: Callable[[], None]) -> None:
        """Have `call` made on the loop; dropped if the loop has been closed."""
        self._calls.append(call)
        if self._awake:
            return
        self._awake = True
        try:
            self._loop.call_soon_threadsafe(self._drain)
        except RuntimeError:  # closed: nobody is left to hear it
            self._calls.clear()

    def _drain(self) -> None:
        self._awake = False
        try:
            for _ in range(len(self._calls)):
                self._calls.popleft()()
        finally:
            if self._calls:  # one call raised, a defect: the loop reports it, and the others are made all the same
                self._loop.call_soon(self._drain)


class LoopThread:
    """A daemon thread that runs an event loop until stopped."""

    def __init__(self, name: str) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    async def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run `coroutine` on the thread's loop and wait for its result; cancelling the wait cancels it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self.loop))

    def stop(self) -> None:
        """Cancel what runs on the loop and end the thread. Blocks for a moment."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()
