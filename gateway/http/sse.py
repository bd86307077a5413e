"""Streams an answer as Server-Sent Events, with one write for all events that are ready, and keep-alive comments.

The request's own task sends the stream; no other task or queue is involved. Comments keep an idle connection open and
report the queue position of a waiting request. A client that does not read is disconnected. After the status line an
error can only be sent as an event, which is then the last one, without `[DONE]`. Routes of other vendors' APIs stream
in their own dialect, with other frames or lines of JSON.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, Protocol

import structlog
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from auth_billing.errors import AccountError
from gateway.admission.queue_estimator import QueueEstimate
from gateway.answers.event_frames import PING
from gateway.errors import ClientDisconnected, GatewayError
from gateway.http.dialect import OPENAI, Dialect
from gateway.http.disconnect import run_until_disconnect
from gateway.http.gateway import Gateway
from gateway.settings import GatewaySettings
from router.messages import Job
from router.producer.errors import GenerationError, SlowClient

_log = structlog.get_logger(__name__)


class _KeepAliveSender:
    """Sends messages to one client, each with a timeout, and a comment whenever none was sent for an interval."""

    def __init__(self, send: Send, settings: GatewaySettings, comment: Callable[[], bytes]) -> None:
        self._send = send
        self._timeout = settings.send_timeout
        self._ping_interval = settings.ping_interval
        self._comment = comment
        self._loop = asyncio.get_running_loop()
        self._ping: asyncio.TimerHandle | None = None
        self._ping_task: asyncio.Task[None] | None = None

    async def send(self, message: Message) -> None:
        """Send one ASGI message of the response to the client.

        Raises:
            SlowClient: The client did not read it in time.
        """
        self.stop_pings()
        try:
            async with asyncio.timeout(self._timeout):
                await self._send(message)
        except TimeoutError:
            raise SlowClient from None
        if message.get("more_body", True):
            self._schedule_ping()

    def stop_pings(self) -> None:
        """Stop sending keep-alive comments: cancel the scheduled one and one that is being sent."""
        for pending in (self._ping, self._ping_task):
            if pending is not None:
                pending.cancel()

    def _schedule_ping(self) -> None:
        self._ping = self._loop.call_later(self._ping_interval, self._start_ping)

    def _start_ping(self) -> None:
        self._ping_task = self._loop.create_task(self._send_comment())

    async def _send_comment(self) -> None:
        await self._send({"type": "http.response.body", "body": self._comment(), "more_body": True})
        self._schedule_ping()


class _Stream(StreamingResponse):
    """A response that streams frames, one for the error that they end in, and results of `comment` between them."""

    def __init__(
        self,
        gateway: Gateway,
        frames: AsyncIterator[bytes],
        headers: Mapping[str, str],
        comment: Callable[[], bytes],
        dialect: Dialect,
    ) -> None:
        super().__init__(_or_error(frames, dialect), headers=headers, media_type=dialect.media_type)
        self._settings = gateway.settings
        self._comment = comment if dialect.has_comments else bytes

    async def stream_response(self, send: Send) -> None:
        """Send the whole stream to the client, with keep-alive comments; an error of the frames becomes the last frame.

        Raises:
            SlowClient: The client does not read; nothing more can be sent to it.
        """
        sender = _KeepAliveSender(send, self._settings, self._comment)
        frames: Any = self.body_iterator
        try:
            async with aclosing(frames):
                await super().stream_response(sender.send)
        finally:
            sender.stop_pings()


class SharedEventStream(_Stream):
    """One client's copy of a stream that other requests may read too: its disconnect does not end the generation."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the frames until they end, or the client disconnects or reads too slowly."""
        try:
            with suppress(ClientDisconnected):
                await run_until_disconnect(receive, self.stream_response(send))
        except SlowClient:
            _log.info("client does not read, its copy of a stream is closed")


class StreamSource(Protocol):
    """What a stream is made from: a generation, or several that answer one request in turn."""

    @property
    def waiting(self) -> QueueEstimate | None:
        """Queue position and estimated wait; `None` if a worker has started the job."""

    @property
    def finished(self) -> bool:
        """Whether the latest events are the last ones."""

    @property
    def jobs(self) -> Sequence[Job]:
        """Jobs that run."""

    def close(self, error: Exception | None = None) -> None:
        """End what is unfinished. Idempotent."""


class EventStream(_Stream):
    """A response that streams `events`, made from `generation`; closes the generation at the end in any case.

    Each item of `events` is one or more whole frames in ASCII, sent together. The route that opened the generation must
    watch for the client's disconnect (`disconnect.py`). The end of the dialect's streams is appended to the last item.
    """

    def __init__(
        self, gateway: Gateway, generation: StreamSource, events: AsyncIterator[str], dialect: Dialect = OPENAI
    ) -> None:
        def comment() -> bytes:
            return keep_alive_comment(generation.waiting)

        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(gateway, _with_done(events, generation, dialect), headers, comment, dialect)
        self._generation = generation
        self._streams_open = gateway.metrics.streams_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the end, an error, or the client's disconnect."""
        with self._streams_open.track_inprogress():
            try:
                await self.stream_response(send)
            except SlowClient as error:  # the response stays incomplete, so the server closes the connection
                self._generation.close(error)
                _log.info("client does not read, stream closed", jobs=[job.id for job in self._generation.jobs])
            finally:
                self._generation.close(ClientDisconnected())


def keep_alive_comment(estimate: QueueEstimate | None) -> bytes:
    """Return a Server-Sent Events comment, which clients ignore, with the queue position if `estimate` has one."""
    if estimate is None or not estimate.position:
        return PING
    if estimate.seconds is None or math.isinf(estimate.seconds):
        return f": queue position {estimate.position}\n\n".encode()
    return f": queue position {estimate.position}, about {math.ceil(estimate.seconds)} s\n\n".encode()


async def _with_done(events: AsyncIterator[str], generation: StreamSource, dialect: Dialect) -> AsyncIterator[bytes]:
    """Encode `events`, and append the end of a whole stream to the last one."""
    if dialect.has_comments and (estimate := generation.waiting) is not None and estimate.position:
        yield keep_alive_comment(estimate)
    async for text in events:
        if generation.finished:
            yield (text + dialect.done).encode("ascii")
        elif text:  # a batch of replies may have no visible event
            yield text.encode("ascii")


async def _or_error(frames: AsyncIterator[bytes], dialect: Dialect) -> AsyncIterator[bytes]:
    """Yield `frames`, and an error frame if they end in an error."""
    try:
        async for data in frames:
            yield data
    except ClientDisconnected:
        return
    except (GatewayError, GenerationError, AccountError) as error:
        yield dialect.error_frame(error).encode("ascii")
    except Exception as error:  # noqa: BLE001 - the status line is sent, so any error must reach the client as a frame
        _log.exception("stream broke")
        yield dialect.error_frame(error).encode("ascii")
