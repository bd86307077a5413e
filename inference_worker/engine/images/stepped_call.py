"""Runs an image pipeline's blocking call in steps: it pauses at each callback, so that the engine can read commands.

The call runs in a thread of its own, but never at the same time as the engine: each waits for the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class _Stopped(BaseException):
    """Raised in the call to unwind it; not an `Exception`, so that the library does not handle it."""


class SteppedCall(Generic[T]):
    """One call, which runs in `thread` (an executor with one thread) and pauses whenever it calls `pause`."""

    def __init__(self, thread: ThreadPoolExecutor, call: Callable[[Callable[[], None]], T]) -> None:
        """`call` gets the function `pause` to call after each of its steps. It starts with the first `advance`."""
        self._turn, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._stopped = False
        self._future = thread.submit(self._run, call)

    @property
    def ended(self) -> bool:
        """Whether the library call has returned or raised, so that `result` can be read."""
        return self._future.done()

    @property
    def result(self) -> T:
        """The value that the ended library call returned; reading it raises the exception that the call raised."""
        result = self._future.result()
        if result is None:
            raise RuntimeError("the call was stopped")
        return result

    def advance(self) -> None:
        """Let the library call run until its next pause or its end; blocks meanwhile.

        Does nothing if the call has ended.
        """
        if not self.ended:
            self._turn.release()
            self._paused.acquire()

    def stop(self) -> None:
        """End the library call at its pause, by an exception in it; blocks until it has ended."""
        self._stopped = True
        while not self.ended:
            self.advance()

    def _run(self, call: Callable[[Callable[[], None]], T]) -> T | None:
        self._turn.acquire()
        try:
            return None if self._stopped else call(self._pause)
        except _Stopped:
            return None
        finally:
            self._ending()

    def _ending(self) -> None:
        # The future is done only after this function has returned: let `advance` return after that.
        self._future.add_done_callback(lambda _future: self._paused.release())

    def _pause(self) -> None:
        self._paused.release()
        self._turn.acquire()
        if self._stopped:
            raise _Stopped
