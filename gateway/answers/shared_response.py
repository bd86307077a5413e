"""Buffers a response that a route writes and several requests read: status, headers, and the body from its start.

A route writes it through `ResponseRecorder` as if to one client. Its buffer is bounded: a longer response loses its
beginning, continues for the readers that are past it, and can't be stored. The end of a response is withheld from its
readers until `end`, so that a response is stored before any client has all of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from starlette.types import Message

from gateway.answers.event_frames import PING, STREAM_ENDS
from router.producer.errors import SlowClient

MAX_BYTES = 4 * 1024 * 1024
LINGER_TIMEOUT = 10.0
"""Seconds that a response without readers continues, because disconnected clients retry within seconds."""
RETRYABLE_STATUSES = frozenset({401, 403, 404, 408, 409, 429, 499})
"""Client errors that are not stored, because a later request may succeed: by rights, a served model, or a free slot."""


@dataclass(frozen=True)
class ResponseHead:
    """Status and headers of a response."""

    status: int
    headers: dict[str, str]

    @property
    def is_stream(self) -> bool:
        """Whether the response's body is a stream of Server-Sent Events or of lines of JSON."""
        return self.headers.get("content-type", "").startswith(("text/event-stream", "application/x-ndjson"))


class SharedResponse:
    """One response, in progress or complete, that a route writes and several requests read from the beginning."""

    def __init__(self) -> None:
        self.head: ResponseHead | None = None
        self.comment = PING
        """The last keep-alive comment of the stream, which may carry the queue position."""
        self.is_replay = False
        """Whether no route is run for this response: it is stored, or copied from another gateway."""
        self.lingers = True
        """Whether it continues without readers for `LINGER_TIMEOUT`."""
        self.abandoned = asyncio.Event()
        """Set when the response had no reader for too long, or lost its claim; its route should stop."""
        self.recorded = asyncio.Event()
        """Set when the response is final and its record in the store is up to date."""
        self._chunks: deque[bytes] = deque()
        self._dropped = 0
        self._bytes = 0
        self.received = 0
        """Bytes of the body that were appended, whether they are still in the buffer or not."""
        self._complete = False
        self._ended = False
        self._error: Exception | None = None
        self._changed = asyncio.Event()
        self._readers = 0
        self._abandon_timer: asyncio.TimerHandle | None = None

    @property
    def has_ended(self) -> bool:
        """Whether `end` was called, so that readers get the rest of the response, or the error with which it ended."""
        return self._ended

    @property
    def is_complete(self) -> bool:
        """Whether the route has written the whole response; readers get its last chunk only after `end`."""
        return self._complete

    @property
    def has_beginning(self) -> bool:
        """Whether a new reader can get the whole body: no chunk was dropped because the buffer was full."""
        return not self._dropped

    @property
    def is_storable(self) -> bool:
        """Whether the buffer has the whole body, of at most `MAX_BYTES`, so that it can be stored for repeats."""
        return self._bytes <= MAX_BYTES and self.has_beginning

    @property
    def body(self) -> bytes:
        """Part of the body that is in the buffer: all that was appended and not dropped."""
        return b"".join(self._chunks)

    @property
    def has_failed(self) -> bool:
        """Whether an equal request should start its own run instead of joining this response."""
        return self.abandoned.is_set() or (self._ended and not self.is_lasting)

    @property
    def broke_off(self) -> bool:
        """Whether the response ended with an error before it was whole."""
        return self._error is not None

    @property
    def is_lasting(self) -> bool:
        """Whether the response is final, so that it is stored for later requests with its key, which else run again."""
        head = self.head
        if head is None or not self._complete or self.broke_off:
            return False
        if head.status in RETRYABLE_STATUSES or head.status >= 500:
            return False
        return not head.is_stream or self._has_stream_end

    @property
    def readable(self) -> int:
        """Number of the body's leading bytes that readers may have; before `end` all but the end of a stream."""
        return self.received - (len(self._chunks[-1]) if self._withholds_end else 0)

    def part(self, start: int, limit: int) -> bytes:
        """Return up to `limit` readable bytes of the body from position `start` on; empty if there are no more yet.

        Raises:
            SlowClient: The bytes at `start` are no longer in the buffer.
        """
        position, chunks = self.received, deque[bytes]()
        for chunk in reversed(self._chunks):
            if position <= start:
                break
            position -= len(chunk)
            chunks.appendleft(chunk)
        if position > start:
            raise SlowClient
        return b"".join(chunks)[start - position : min(start + limit, self.readable) - position]

    async def wait_for_more(self, start: int, seconds: float, *, started: bool) -> None:
        """Wait at most `seconds` for more than a reader has: `start` bytes, and if it has `started` the head."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._ended and self.readable <= start and (started or self.head is None):
                    await self._changed.wait()

    @property
    def _has_stream_end(self) -> bool:
        """Whether the last chunk of the body in the buffer has the end of a stream of events."""
        return bool(self._chunks) and self._chunks[-1].endswith(STREAM_ENDS)

    def start(self, head: ResponseHead) -> None:
        """Set the response's status and headers, as the route has sent them, and wake the readers."""
        self.head = head
        self._wake()

    def append(self, chunk: bytes) -> None:
        """Append a chunk to the body for all readers; above `MAX_BYTES` drop the oldest chunks, but never the last one.

        Readers get a chunk with the end of a stream of events only after `end`.
        """
        self._chunks.append(chunk)
        self._bytes += len(chunk)
        self.received += len(chunk)
        while self._bytes > MAX_BYTES and len(self._chunks) > 1:
            self._bytes -= len(self._chunks.popleft())
            self._dropped += 1
        self._wake()

    def complete(self) -> None:
        """Mark the response as wholly written.

        Readers get its last chunk after `end`, so that it can be stored before.
        """
        self._complete = True

    def end(self, error: Exception | None = None) -> None:
        """Release the response's end to its readers, or raise `error` in them. Later calls do nothing."""
        if not self._ended:
            self._ended, self._error = True, error
            self._wake()

    @contextmanager
    def reader(self) -> Iterator[None]:
        """Count a reader of the response while the block runs; `LINGER_TIMEOUT` without readers sets `abandoned`."""
        self._readers += 1
        if self._abandon_timer is not None:
            self._abandon_timer.cancel()
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers and not self._complete and not self._ended:
                delay = LINGER_TIMEOUT if self.lingers else 0.0
                self._abandon_timer = asyncio.get_running_loop().call_later(delay, self._abandon)

    async def started(self) -> ResponseHead:
        """Wait until the route has sent the response's status and headers, and return them.

        Raises:
            Exception: The error with which the response ended before it had a status.
        """
        while self.head is None:
            if self._error is not None:
                raise self._error
            await self._changed.wait()
        return self.head

    async def wait_for_body(self) -> bytes:
        """Wait for the response's end and return its whole body.

        Raises:
            SlowClient: The beginning of the body is no longer in the buffer.
            Exception: The error with which the response ended.
        """
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body's chunks from the beginning to the end, waiting for those that the route has not written yet.

        Raises:
            SlowClient: The reader is so slow that its next chunk was dropped.
            Exception: The error with which the response ended.
        """
        position = 0
        while True:
            if position < self._dropped:
                raise SlowClient
            if position < self._dropped + len(self._chunks) - self._withholds_end:
                position += 1
                yield self._chunks[position - 1 - self._dropped]
            elif not self._ended:
                await self._changed.wait()
            elif self._error is not None:
                raise self._error
            else:
                return

    @property
    def _withholds_end(self) -> bool:
        """Whether readers don't get the last chunk: the end of a stream that has not ended, or that broke off."""
        return (not self._ended or self.broke_off) and self._has_stream_end

    def _abandon(self) -> None:
        if not self._complete:
            self.abandoned.set()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class ResponseRecorder:
    """ASGI client of a route: sends it `body`, records its response in `answer`, disconnects if that is abandoned."""

    def __init__(self, body: bytes, answer: SharedResponse) -> None:
        self._unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        self._answer = answer

    async def receive(self) -> Message:
        """Return the request body at the route's first call.

        Later wait until the response is abandoned: a disconnect.
        """
        if self._unread:
            return self._unread.pop()
        await self._answer.abandoned.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Record one ASGI message of the route's response: its head, or a chunk. A keep-alive comment is no chunk."""
        if message["type"] == "http.response.start":
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
            headers.pop("content-length", None)
            self._answer.start(ResponseHead(message["status"], headers))
            return
        chunk: bytes = message.get("body", b"")
        if chunk.startswith(b":"):
            self._answer.comment = chunk
        elif chunk:
            self._answer.append(chunk)
        if not message.get("more_body", False):
            self._answer.complete()
