"""An answer as Server-Sent Events, framed as OpenAI's clients expect.

Text of a model is only ever inside JSON with everything but ASCII escaped, so no line separator in it can break a
frame. After the status line an error can only be an event: it is the last frame then, without `[DONE]`. Does not know
what a frame says.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import structlog
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from gateway.errors import ClientDisconnected, GatewayError, SlowClient, error_body
from gateway.gateway import Gateway
from gateway.generation import Generation

DONE = b"data: [DONE]\n\n"

_log = structlog.get_logger(__name__)


def frame(payload: dict[str, Any]) -> bytes:
    """One event."""
    return b"data: " + json.dumps(payload, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n\n"


class EventStream(EventSourceResponse):
    """Streams `payloads`, which read `generation`; closes the generation whatever happens."""

    def __init__(self, gateway: Gateway, generation: Generation, payloads: AsyncIterator[dict[str, Any]]) -> None:
        super().__init__(
            frames(payloads),
            headers={"Cache-Control": "no-cache"},
            ping=gateway.settings.ping_interval,
            ping_message_factory=_ping,
            sep="\n",
            send_timeout=gateway.settings.send_timeout,
        )
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


async def frames(payloads: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    """Frames of `payloads`, then `[DONE]` or the error."""
    try:
        async for payload in payloads:
            yield frame(payload)
    except GatewayError as error:
        yield frame(error_body(error))
    except Exception as error:  # noqa: BLE001 - the status line is sent: whatever this is, the client must hear of it
        _log.exception("stream broke")
        yield frame(error_body(error))
    else:
        yield DONE


def _ping() -> ServerSentEvent:
    return ServerSentEvent(comment="ping", sep="\n")
