"""An answer that several requests may read: its status and headers, then its bytes, each reader from the beginning.

Written by a route as if to one client (`Recorder`). Bounded: what is too long loses its beginning, goes on for those
who are that far, and can't be kept. Does not know keys, tenants or why there are several readers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.types import Message

from gateway.answers.event_frames import PING
from gateway.errors import SlowClient

MAX_BYTES = 4 * 1024 * 1024
LINGER_SECONDS = 10.0
"""How long an answer without a reader goes on: clients whose connection broke try again within seconds."""


@dataclass(frozen=True)
class Head:
    """What comes before the body."""

    status: int
    headers: dict[str, str]

    @property
    def is_stream(self) -> bool:
        """Whether the body is a stream of events."""
        return self.headers.get("content-type", "").startswith("text/event-stream")


class LiveAnswer:
    """One answer, in the making or complete."""

    def __init__(self) -> None:
        self.head: Head | None = None
        self.comment = PING
        """The last that its maker said to keep a stream open: where it stands in line, if it does."""
        self.is_repetition = False
        """Nothing was run for it: it is a kept one."""
        self.abandoned = asyncio.Event()
        """Nobody has read it for a while: whoever makes it should stop."""
        self.settled = asyncio.Event()
        """Nothing will change any more, in the store neither."""
        self._chunks: deque[bytes] = deque()
        self._lost = 0
        self._bytes = 0
        self._ended = False
        self._error: Exception | None = None
        self._changed = asyncio.Event()
        self._readers = 0
        self._lingering: asyncio.TimerHandle | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing follows."""
        return self._ended

    @property
    def is_whole(self) -> bool:
        """Whether its beginning is still here."""
        return not self._lost

    @property
    def fits(self) -> bool:
        """Whether it is short enough to be kept."""
        return self._bytes <= MAX_BYTES and self.is_whole

    @property
    def body(self) -> bytes:
        """All that is here."""
        return b"".join(self._chunks)

    def ends_with(self, end: bytes) -> bool:
        """Whether its last chunk ends so."""
        return bool(self._chunks) and self._chunks[-1].endswith(end)

    def start(self, head: Head) -> None:
        """The status and the headers are known."""
        self.head = head
        self._wake()

    def append(self, chunk: bytes) -> None:
        """The next bytes. The last chunk is never dropped, however long it is."""
        self._chunks.append(chunk)
        self._bytes += len(chunk)
        while self._bytes > MAX_BYTES and len(self._chunks) > 1:
            self._bytes -= len(self._chunks.popleft())
            self._lost += 1
        self._wake()

    def end(self, error: Exception | None = None) -> None:
        """Nothing follows; with an error, it is not complete. The first end counts."""
        if not self._ended:
            self._ended, self._error = True, error
            self._wake()

    @contextmanager
    def read_by_one_more(self) -> Iterator[None]:
        """Inside, somebody reads it. When nobody has for `LINGER_SECONDS`, it is abandoned."""
        self._readers += 1
        if self._lingering is not None:
            self._lingering.cancel()
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers and not self._ended:
                self._lingering = asyncio.get_running_loop().call_later(LINGER_SECONDS, self.abandoned.set)

    async def started(self) -> Head:
        """The head, as soon as it is known.

        Raises:
            Exception: there is none, for this reason.
        """
        while self.head is None:
            if self._error is not None:
                raise self._error
            await self._changed.wait()
        return self.head

    async def whole_body(self) -> bytes:
        """All of it, at the end."""
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        """From the beginning to the end.

        Raises:
            SlowClient: the reader is further behind than what is remembered.
            Exception: it ended with this.
        """
        position = 0
        while True:
            if position < self._lost:
                raise SlowClient
            if position < self._lost + len(self._chunks):
                position += 1
                yield self._chunks[position - 1 - self._lost]
            elif not self._ended:
                await self._changed.wait()
            elif self._error is not None:
                raise self._error
            else:
                return

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Recorder:
    """The client that a route answers when the real ones may come and go: it sent `body`, and leaves if abandoned."""

    def __init__(self, body: bytes, answer: LiveAnswer) -> None:
        self._unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        self._answer = answer

    async def receive(self) -> Message:
        """The body, then nothing until it leaves."""
        if self._unread:
            return self._unread.pop()
        await self._answer.abandoned.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Record a part of the answer; the comments that keep a stream open are told at each reader's own times."""
        if message["type"] == "http.response.start":
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
            headers.pop("content-length", None)
            self._answer.start(Head(message["status"], headers))
            return
        chunk: bytes = message.get("body", b"")
        if chunk.startswith(b":"):
            self._answer.comment = chunk
        elif chunk:
            self._answer.append(chunk)
        if not message.get("more_body", False):
            self._answer.end()
