"""Buffers the replies to one request's jobs, bounded and in order, until the request's task reads them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from router.messages import Delta, Reply
from router.producer.errors import GenerationError, SlowClient

REPLY_BYTES = 64
"""Approximate memory of a reply beside its text."""
TOKEN_BYTES = 16
LOGPROB_BYTES = 512


class Arrival(NamedTuple):
    """A reply that has arrived for job number `job` of a request."""

    job: int
    reply: Reply


class UnreadReplies:
    """Bounded buffer of the replies to one request's jobs: filled by the reply inbox, read by the request's task."""

    def __init__(self, max_bytes: int, on_failure: Callable[[], object] = lambda: None) -> None:
        """`max_bytes`: approximate memory limit of unread replies; `on_failure` is called when the request fails."""
        self._max_bytes = max_bytes
        self._on_failure = on_failure
        self._queue: deque[Arrival] = deque()
        self._bytes = 0
        self._error: GenerationError | None = None
        self._reader: asyncio.Future[None] | None = None

    def append(self, job: int, reply: Reply) -> None:
        """Add one reply about job number `job`.

        If that exceeds `max_bytes`, drop all unread ones and fail with `SlowClient`.
        """
        self._queue.append(Arrival(job, reply))
        self._bytes += _size(reply)
        if self._bytes > self._max_bytes:
            self.discard(SlowClient())
        self._wake()

    def fail(self, error: GenerationError) -> None:
        """Fail the request: its reader gets the unread replies, then `error` is raised. Only the first error counts."""
        if self._error is None:
            self._error = error
            self._on_failure()
        self._wake()

    def discard(self, error: GenerationError) -> None:
        """Fail the request at once: drop all its unread replies, so that `error` is raised in its reader."""
        self._queue.clear()
        self.fail(error)

    def peek(self) -> Sequence[Arrival]:
        """Return the request's unread replies, in order of arrival, without removing them; empty if there are none.

        Raises:
            GenerationError: no reply is unread, and the request has failed.
        """
        if not self._queue and self._error is not None:
            raise self._error
        return self._queue

    def detach(self) -> None:
        """Stop reporting failures, because the request is closed.

        The callback leads to the request's jobs, which lead back here: only a garbage collection would free them.
        """
        self._on_failure = lambda: None

    def take_all(self) -> list[Arrival]:
        """Remove and return all unread replies of the request in order of arrival; empty if there are none."""
        arrivals = list(self._queue)
        self._queue.clear()
        self._bytes = 0
        return arrivals

    async def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for an unread reply of the request; return whether there is one.

        Raises:
            GenerationError: no reply is unread, and the request has failed.
        """
        if not self.peek():
            loop = asyncio.get_running_loop()
            self._reader = loop.create_future()
            timer = loop.call_later(seconds, self._wake)
            try:
                await self._reader
            finally:
                timer.cancel()
                self._reader = None
        return bool(self.peek())

    async def complete(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`, which precedes the request's jobs, to its end; cancel it when the request fails.

        Raises:
            GenerationError: the request has failed.
        """
        task = asyncio.create_task(work)
        self._reader = asyncio.get_running_loop().create_future()
        try:
            self.peek()
            await asyncio.wait((task, self._reader), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                self.peek()
            await task
        finally:
            task.cancel()
            self._reader = None

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


def _size(reply: Reply) -> int:
    """Return the approximate memory of a reply.

    Vectors and replies about the prompt count little: their size is bounded by the request, and they arrive faster than
    any client reads.
    """
    if not isinstance(reply, Delta):
        return REPLY_BYTES
    logprobs = LOGPROB_BYTES * len(reply.logprobs or [])
    return REPLY_BYTES + len(reply.text) + len(reply.reasoning) + TOKEN_BYTES * len(reply.token_ids) + logprobs
