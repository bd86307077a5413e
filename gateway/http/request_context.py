"""Around every request: its id, trace and time, in headers, logs and metrics; and the last net under exceptions.

Also refuses by the headers alone what no route should see, and hears a client out that is refused before it has sent
all: a connection that ends with something unread is reset, and with it the refusal may be lost that the client has not
read yet (RFC 9112, 9.6). Pure ASGI, so that streams pass through untouched. Knows no route and no body.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass

import structlog
from opentelemetry import context as trace_context
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.errors import GatewayError, MalformedHttp, TooManyHeaders
from gateway.http import rate_limits
from gateway.http.error_handlers import error_response
from gateway.metrics import GatewayMetrics
from runtime import tracing

OPENAI_VERSION = "2020-10-01"
"""The version of the API's conventions that OpenAI itself sends."""

MAX_HEADERS = 128

HEAR_OUT_SECONDS = 0.5
HEAR_OUT_BYTES = 256 * 1024
"""How long, and for how much, a client is heard out that has its refusal already."""

_CLIENT_ID = re.compile(r"[\x21-\x7e]{1,512}")
_HOST = re.compile(rb"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
"""A name or an address, and a port: nothing that could be taken for a part of a path."""


_log = structlog.get_logger(__name__)


@dataclass
class _Progress:
    """What has passed through so far."""

    id: str
    client_id: str | None
    began: float
    body_read: bool
    status: int | None = None


class RequestContext:
    """The middleware."""

    def __init__(self, app: ASGIApp, metrics: GatewayMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        progress = _begin(headers)
        structlog.contextvars.bind_contextvars(request_id=progress.id)
        token = trace_context.attach(tracing.extract(dict(headers)))
        try:
            await self._pass(scope, receive, send, progress)
        finally:
            trace_context.detach(token)
            rate_limits.leave(scope)
            self._count(scope, progress)
            structlog.contextvars.unbind_contextvars("request_id")

    async def _pass(self, scope: Scope, receive: Receive, send: Send, progress: _Progress) -> None:
        async def received() -> Message:
            message = await receive()
            progress.body_read = progress.body_read or not message.get("more_body", False)
            return message

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                progress.status = message["status"]
                _add_headers(MutableHeaders(scope=message), progress, rate_limits.headers(scope))
            elif not (progress.body_read or message.get("more_body", False)):
                await send({**message, "more_body": True})
                await _hear_out(received)
                message = {"type": "http.response.body"}
            await send(message)

        try:
            if (objection := _objection(scope)) is not None:
                progress.body_read = False  # nor is anything else that comes on this connection
                await error_response(objection)(scope, received, sent)
            else:
                await self._app(scope, received, sent)
        except Exception as error:  # noqa: BLE001 - the last net: a client gets an OpenAI-shaped 500, a person the log
            _log.exception("request failed")
            if progress.status is None:
                await error_response(error)(scope, received, sent)

    def _count(self, scope: Scope, progress: _Progress) -> None:
        route = getattr(scope.get("route"), "path", "unmatched")
        self._metrics.requests.labels(route, _method(scope["method"]), str(progress.status or 499)).inc()
        self._metrics.request_seconds.labels(route).observe(time.monotonic() - progress.began)


def new_request_id() -> str:
    """An id for support to ask for."""
    return f"req_{uuid.uuid4().hex}"


def standing_headers(request_id: str, seconds: float) -> dict[str, str]:
    """The headers of every response; `seconds`: since the request's headers were here."""
    return {
        "x-request-id": request_id,
        "openai-processing-ms": str(int(seconds * 1000)),
        "openai-version": OPENAI_VERSION,
        "x-content-type-options": "nosniff",
    }


def _objection(scope: Scope) -> GatewayError | None:
    """What is wrong with the headers, whatever the route."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if scope.get("http_version", "1.1") not in ("1.0", "1.1"):
        return MalformedHttp("The version of HTTP must be 1.1 or 1.0.")
    if len(headers) > MAX_HEADERS:
        return TooManyHeaders(f"The request has more than {MAX_HEADERS} headers.")
    framing = 0
    for name, value in headers:
        if name == b"host" and not _HOST.fullmatch(value):
            return MalformedHttp("The Host header is not a host name.")
        framing += name in (b"content-length", b"transfer-encoding")
    return MalformedHttp("The length of the body is stated in two ways.") if framing > 1 else None


def _begin(headers: Headers) -> _Progress:
    asked = headers.get("x-client-request-id", "")
    return _Progress(
        id=new_request_id(),
        client_id=asked if _CLIENT_ID.fullmatch(asked) else None,
        began=time.monotonic(),
        body_read="transfer-encoding" not in headers and headers.get("content-length", "0") == "0",
    )


async def _hear_out(receive: Receive) -> None:
    """Read the rest of a body that nobody needs, within limits."""
    heard = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(HEAR_OUT_SECONDS):
            while heard < HEAR_OUT_BYTES:
                message = await receive()
                heard += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return


def _add_headers(headers: MutableHeaders, progress: _Progress, limits: dict[str, str]) -> None:
    headers.update(limits)
    headers.update(standing_headers(progress.id, time.monotonic() - progress.began))
    if progress.client_id:
        headers["x-client-request-id"] = progress.client_id
    if not progress.body_read:
        # Refused before it was read: what is still to come is not read either.
        headers["connection"] = "close"


def _method(method: str) -> str:
    return method if method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} else "other"
