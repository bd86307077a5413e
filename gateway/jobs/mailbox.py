"""What has arrived for one HTTP request and has not been read yet: bounded and in order.

One mailbox for all jobs of a request. Knows nothing of queues, HTTP or time limits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gateway.errors import GenerationError, SlowClient
from gateway.jobs.job_progress import Admitted, JobProgress
from router.messages import Delta, Job, Reply

REPLY_BYTES = 64
"""What an entry costs besides its text, roughly."""
TOKEN_BYTES = 16
LOGPROB_BYTES = 512


class Arrival(NamedTuple):
    """A reply about the `job`-th job of the request."""

    job: int
    reply: Reply


class Mailbox:
    """Filled by the reply inbox, emptied by the request's task (one reader: waiting costs a future and a timer)."""

    def __init__(self, jobs: Sequence[Job], max_bytes: int) -> None:
        self.jobs = {job.id: job for job in jobs}
        self.headers: Mapping[str, str] = {}
        """That the jobs were published with."""
        self.progress = {job.id: JobProgress.of(job) for job in jobs}
        self._number = {job.id: number for number, job in enumerate(jobs)}
        self._max_bytes = max_bytes
        self._queue: deque[Arrival] = deque()
        self._bytes = 0
        self._error: GenerationError | None = None
        self._reader: asyncio.Future[None] | None = None

    def deliver(self, worker: str, reply: Reply) -> Admitted:
        """Take a reply in, or say why it is dropped. What is wrong with it is raised to the reader, not here."""
        if self._error is not None:
            return Admitted.KNOWN
        try:
            admitted = self.progress[reply.job_id].admit(reply, worker)
        except GenerationError as error:
            self.fail(error)
            return Admitted.KNOWN
        if admitted is not Admitted.NEWS:
            return admitted
        self._queue.append(Arrival(self._number[reply.job_id], reply))
        self._bytes += _size(reply)
        if self._bytes > self._max_bytes:
            self.abandon(SlowClient())
        self._wake()
        return admitted

    def fail(self, error: GenerationError) -> None:
        """Let the reader have `error` after what is already here. The first error counts."""
        self._error = self._error or error
        self._wake()

    def abandon(self, error: GenerationError) -> None:
        """Let the reader have `error`, and nothing of what is here."""
        self._queue.clear()
        self.fail(error)

    @property
    def failed(self) -> bool:
        """Whether nothing more is taken in."""
        return self._error is not None

    def peek(self) -> Sequence[Arrival]:
        """What is here, unread.

        Raises:
            GenerationError: nothing is, and nothing will be.
        """
        if not self._queue and self._error is not None:
            raise self._error
        return self._queue

    def take_all(self) -> list[Arrival]:
        """All that is here, the oldest first."""
        arrivals = list(self._queue)
        self._queue.clear()
        self._bytes = 0
        return arrivals

    async def news(self, seconds: float) -> bool:
        """Wait until something is here; false if nothing is after `seconds`.

        Raises:
            GenerationError: nothing is here, and nothing will be.
        """
        if not self.peek():
            loop = asyncio.get_running_loop()
            self._reader = loop.create_future()
            alarm = loop.call_later(seconds, self._wake)
            try:
                await self._reader
            finally:
                alarm.cancel()
                self._reader = None
        return bool(self.peek())

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


def _size(reply: Reply) -> int:
    """What is as long as the request made it does not count: vectors, and what is told of the prompt.

    It comes faster than it can be read, and whoever gathers it waits for no client.
    """
    if not isinstance(reply, Delta):
        return REPLY_BYTES
    logprobs = LOGPROB_BYTES * len(reply.logprobs or [])
    return REPLY_BYTES + len(reply.text) + TOKEN_BYTES * len(reply.token_ids) + logprobs
