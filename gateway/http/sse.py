"""An answer as a stream of Server-Sent Events: one write for all that has come.

It is sent by the task of its request, and by no other: a stream costs what its writes cost. Comments keep the
connection open while there is nothing to say, and tell those who stand in line where; a client that does not read is
given up. Shutdown is the server's. After the status line an error can only be an event: it is the last frame then,
without `[DONE]`. Does not know what a frame says.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any

import structlog
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from gateway.admission.job_queues import Outlook
from gateway.answers.event_frames import DONE, PING, frame
from gateway.errors import ClientDisconnected, GatewayError, SlowClient, error_body
from gateway.http.disconnect import unless_gone
from gateway.http.gateway import Gateway
from gateway.jobs.generation import Generation
from gateway.settings import GatewaySettings

MEDIA_TYPE = "text/event-stream"

_log = structlog.get_logger(__name__)


class _Line:
    """The way to one client: each message within the operator's patience, and a comment when there was none lately."""

    def __init__(self, send: Send, settings: GatewaySettings, comment: Callable[[], bytes]) -> None:
        self._send = send
        self._patience = settings.send_timeout
        self._ping_interval = settings.ping_interval
        self._comment = comment
        self._loop = asyncio.get_running_loop()
        self._ping: asyncio.TimerHandle | None = None
        self._pinging: asyncio.Task[None] | None = None

    async def send(self, message: Message) -> None:
        """Say something.

        Raises:
            SlowClient: the client does not read.
        """
        self.hang_up()
        try:
            async with asyncio.timeout(self._patience):
                await self._send(message)
        except TimeoutError:
            raise SlowClient from None
        if message.get("more_body", True):
            self._ping_later()

    def hang_up(self) -> None:
        """No comments from now on."""
        for under_way in (self._ping, self._pinging):
            if under_way is not None:
                under_way.cancel()

    def _ping_later(self) -> None:
        self._ping = self._loop.call_later(self._ping_interval, self._ping_now)

    def _ping_now(self) -> None:
        self._pinging = self._loop.create_task(self._say_comment())

    async def _say_comment(self) -> None:
        await self._send({"type": "http.response.body", "body": self._comment(), "more_body": True})
        self._ping_later()


class _Stream(StreamingResponse):
    """Frames, and a `comment` while there are none."""

    def __init__(
        self,
        gateway: Gateway,
        frames: AsyncIterator[bytes],
        headers: Mapping[str, str],
        comment: Callable[[], bytes],
    ) -> None:
        super().__init__(frames, headers=headers, media_type=MEDIA_TYPE)
        self._settings = gateway.settings
        self._comment = comment

    async def stream_response(self, send: Send) -> None:
        """Send all of it.

        Raises:
            SlowClient: the client does not read; nothing can be said to it any more.
        """
        line = _Line(send, self._settings, self._comment)
        frames: Any = self.body_iterator
        try:
            async with aclosing(frames):
                await super().stream_response(line.send)
        finally:
            line.hang_up()


class SharedEventStream(_Stream):
    """The frames of an answer that other requests may read too: nobody's leaving ends it."""

    def __init__(
        self, gateway: Gateway, frames: AsyncIterator[bytes], headers: Mapping[str, str], comment: Callable[[], bytes]
    ) -> None:
        super().__init__(gateway, _or_error(frames), headers, comment)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the end, or the client's."""
        try:
            with suppress(ClientDisconnected):
                await unless_gone(receive, self.stream_response(send))
        except SlowClient:
            _log.info("client does not read, its copy of a stream is closed")


class EventStream(_Stream):
    """Streams `events`, which read `generation`; closes the generation whatever happens.

    Each item is whole frames, in ASCII, sent together. Whoever opened the generation sees to it that it ends when the
    client leaves (`disconnect.py`).
    """

    def __init__(self, gateway: Gateway, generation: Generation, events: AsyncIterator[str]) -> None:
        def comment() -> bytes:
            return comment_on(generation.waiting)

        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(gateway, _or_error(_to_the_end(events, generation)), headers, comment)
        self._generation = generation
        self._streams_open = gateway.metrics.streams_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the end, an error, or the client's."""
        with self._streams_open.track_inprogress():
            try:
                await self.stream_response(send)
            except SlowClient as error:  # without its last chunk the connection is closed
                self._generation.close(error)
                _log.info("client does not read, stream closed", job=self._generation.jobs[0].id)
            finally:
                self._generation.close(ClientDisconnected())


def comment_on(outlook: Outlook | None) -> bytes:
    """A comment, which clients ignore: where a request stands in line, if it does."""
    if outlook is None or not outlook.position:
        return PING
    if outlook.seconds is None or math.isinf(outlook.seconds):
        return f": queue position {outlook.position}\n\n".encode()
    return f": queue position {outlook.position}, about {math.ceil(outlook.seconds)} s\n\n".encode()


async def _to_the_end(events: AsyncIterator[str], generation: Generation) -> AsyncIterator[bytes]:
    """`events`, encoded; the last of them with `[DONE]`."""
    if (outlook := generation.waiting) is not None and outlook.position:
        yield comment_on(outlook)
    async for text in events:
        if generation.finished:
            yield (text + DONE).encode("ascii")
        elif text:  # a batch need not show anything
            yield text.encode("ascii")


async def _or_error(frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """`frames`; or as far as they come, and the error."""
    try:
        async for frames_of_now in frames:
            yield frames_of_now
    except ClientDisconnected:
        return
    except GatewayError as error:
        yield frame(error_body(error)).encode("ascii")
    except Exception as error:  # noqa: BLE001 - the status line is sent: whatever this is, the client must hear of it
        _log.exception("stream broke")
        yield frame(error_body(error)).encode("ascii")
