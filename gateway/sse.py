"""An answer as a stream of Server-Sent Events: one write for all that has come, a comment when nothing does.

After the status line an error can only be an event: it is the last frame then, without `[DONE]`. Does not know what a
frame says.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.disconnect import ended_with
from gateway.errors import ClientDisconnected, GatewayError, SlowClient, error_body
from gateway.event_frames import DONE, PING, frame
from gateway.gateway import Gateway
from gateway.generation import Generation

HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
"""Neither caches nor buffering proxies between us and the client."""

_log = structlog.get_logger(__name__)


class EventStream(Response):
    """Streams `events`, which read `generation`; closes the generation whatever happens.

    Each item is whole frames, sent together; an empty one stands for silence.
    """

    media_type = "text/event-stream"

    def __init__(self, gateway: Gateway, generation: Generation, events: AsyncIterator[str]) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(HEADERS)
        self._generation = generation
        self._events = events
        self._send_timeout = gateway.settings.send_timeout
        self._streams_open = gateway.metrics.streams_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the end, an error, or the client's."""
        with self._streams_open.track_inprogress():
            try:
                async with ended_with(receive, self._generation):
                    await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                    await self._send_events(send)
            except SlowClient:
                # Nothing can be said to somebody who does not read; without its last chunk the connection is closed.
                _log.info("client does not read, stream closed", job=self._generation.jobs[0].id)
            finally:
                self._generation.close(ClientDisconnected())

    async def _send_events(self, send: Send) -> None:
        now = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(None) as patience:
                async for text in _to_the_end(self._events):
                    patience.reschedule(now() + self._send_timeout)
                    await send({"type": "http.response.body", "body": text.encode("ascii"), "more_body": True})
                    patience.reschedule(None)
        except TimeoutError as error:
            raise SlowClient from error
        await send({"type": "http.response.body", "body": b""})


async def _to_the_end(events: AsyncIterator[str]) -> AsyncIterator[str]:
    """`events`, then `[DONE]` or the error."""
    try:
        async for text in events:
            yield text or PING
    except GatewayError as error:
        yield frame(error_body(error))
    except Exception as error:  # noqa: BLE001 - the status line is sent: whatever this is, the client must hear of it
        _log.exception("stream broke")
        yield frame(error_body(error))
    else:
        yield DONE
