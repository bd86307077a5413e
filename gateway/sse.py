"""An answer as a stream of Server-Sent Events, sent by sse-starlette: one item for all that has come.

The library's price is per item, so it is paid once a window of tokens. It pings, gives up on a client that does not
read, and hears one that leaves; shutdown is the server's. Who stands in line is told where, in the comments that keep
the connection open. After the status line an error can only be an event: it is
the last frame then, without `[DONE]`. Does not know what a frame says.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping

import structlog
from sse_starlette import EventSourceResponse
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from gateway.errors import ClientDisconnected, GatewayError, SlowClient, error_body
from gateway.event_frames import DONE, PING, frame
from gateway.gateway import Gateway
from gateway.generation import Generation
from gateway.job_queues import Outlook

_log = structlog.get_logger(__name__)


class _PingedStream(EventSourceResponse):
    """Frames, with the operator's pings and patience. `comment` keeps the connection open while there are none."""

    def __init__(
        self, gateway: Gateway, frames: AsyncIterator[bytes], headers: Mapping[str, str], comment: Callable[[], bytes]
    ) -> None:
        super().__init__(
            frames,
            headers=headers,
            ping=gateway.settings.ping_interval,
            ping_message_factory=comment,  # type: ignore[arg-type]  # bytes are sent as they are
            send_timeout=gateway.settings.send_timeout,
        )


class SharedEventStream(_PingedStream):
    """The frames of an answer that other requests may read too: nobody's leaving ends it."""

    def __init__(
        self, gateway: Gateway, frames: AsyncIterator[bytes], headers: Mapping[str, str], comment: Callable[[], bytes]
    ) -> None:
        super().__init__(gateway, _or_error(frames), headers, comment)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the end, or the client's."""
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            _log.info("client does not read, its copy of a stream is closed")


class EventStream(_PingedStream):
    """Streams `events`, which read `generation`; closes the generation whatever happens.

    Each item is whole frames, in ASCII, sent together.
    """

    def __init__(self, gateway: Gateway, generation: Generation, events: AsyncIterator[str]) -> None:
        def comment() -> bytes:
            return comment_on(generation.waiting)

        super().__init__(gateway, _or_error(_to_the_end(events, generation)), {"Cache-Control": "no-cache"}, comment)
        self._generation = generation
        self._streams_open = gateway.metrics.streams_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the end, an error, or the client's."""
        with self._streams_open.track_inprogress():
            try:
                await super().__call__(scope, receive, send)
            except SendTimeoutError:
                # Nothing can be said to somebody who does not read; without its last chunk the connection is closed.
                self._generation.close(SlowClient())
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
    """`events`, encoded, so that the library sends them as they are; then `[DONE]`."""
    if (outlook := generation.waiting) is not None and outlook.position:
        yield comment_on(outlook)
    async for text in events:
        if text:  # a batch need not show anything
            yield text.encode("ascii")
    yield DONE.encode("ascii")


async def _or_error(frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """`frames`; or as far as they come, and the error."""
    try:
        async for frames_of_now in frames:
            yield frames_of_now
    except GatewayError as error:
        yield frame(error_body(error)).encode("ascii")
    except Exception as error:  # noqa: BLE001 - the status line is sent: whatever this is, the client must hear of it
        _log.exception("stream broke")
        yield frame(error_body(error)).encode("ascii")
