"""ASGI middleware of every gateway request: gives it an id and a trace, measures it, and answers unexpected exceptions.

It also refuses requests with invalid headers, and drains the body of a request that is refused before it was read:
closing a connection with unread data resets it, and the client may lose the response (RFC 9112, section 9.6). It is
pure ASGI so that streams pass through without a copy.
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
from gateway.http.dialect import dialect_of
from gateway.http.error_handlers import error_response
from gateway.metrics import GatewayMetrics
from runtime import tracing

OPENAI_VERSION = "2020-10-01"
"""Value of the `openai-version` header that OpenAI sends."""

MAX_HEADERS = 128

DRAIN_TIMEOUT = 0.5
DRAIN_BYTES = 256 * 1024
"""Limits of draining the body of a refused request, in seconds and bytes."""

_CLIENT_ID = re.compile(r"[\x21-\x7e]{1,512}")
_HOST = re.compile(rb"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
"""Valid `Host` headers: a name or an address, and a port; nothing that could be mistaken for part of a path."""

_log = structlog.get_logger(__name__)


@dataclass
class _Progress:
    """Progress of one request through the middleware."""

    id: str
    client_id: str | None
    began: float
    body_read: bool
    status: int | None = None


class RequestContext:
    """ASGI middleware that gives each request an id, trace and common headers, measures it and answers its errors."""

    def __init__(self, app: ASGIApp, metrics: GatewayMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application for one ASGI request; at its end, release its rate limits and record its metrics."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        progress = _start(headers)
        structlog.contextvars.bind_contextvars(request_id=progress.id)
        token = trace_context.attach(tracing.extract(headers))
        try:
            await self._handle(scope, receive, send, progress)
        finally:
            trace_context.detach(token)
            rate_limits.leave(scope)
            self._record(scope, progress)
            structlog.contextvars.unbind_contextvars("request_id")

    async def _handle(self, scope: Scope, receive: Receive, send: Send, progress: _Progress) -> None:
        async def received() -> Message:
            message = await receive()
            progress.body_read = progress.body_read or not message.get("more_body", False)
            return message

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                progress.status = message["status"]
                headers = MutableHeaders(scope=message)
                _add_headers(headers, progress, rate_limits.headers(scope))
                if (name := dialect_of(scope).request_id_header) is not None:
                    headers[name] = progress.id
            elif not (progress.body_read or message.get("more_body", False)):
                await send({**message, "more_body": True})
                await _drain(received)
                message = {"type": "http.response.body"}
            await send(message)

        try:
            if (error := _header_error(scope)) is not None:
                progress.body_read = False  # nothing else on this connection is read either
                await error_response(error)(scope, received, sent)
            else:
                await self._app(scope, received, sent)
        except Exception as failure:  # noqa: BLE001 - the last handler answers and logs every exception
            _log.exception("request failed")
            if progress.status is None:
                await error_response(failure, dialect_of(scope))(scope, received, sent)

    def _record(self, scope: Scope, progress: _Progress) -> None:
        route = getattr(scope.get("route"), "path", "unmatched")
        self._metrics.requests.labels(route, _method(scope["method"]), str(progress.status or 499)).inc()
        self._metrics.request_seconds.labels(route).observe(time.monotonic() - progress.began)


def new_request_id() -> str:
    """Create a random request id for the `x-request-id` header and the logs."""
    return f"req_{uuid.uuid4().hex}"


def common_headers(request_id: str, seconds: float) -> dict[str, str]:
    """Return the headers of every response of the gateway.

    `seconds`: time since the request's headers were received.
    """
    return {
        "x-request-id": request_id,
        "openai-processing-ms": str(int(seconds * 1000)),
        "openai-version": OPENAI_VERSION,
        "x-content-type-options": "nosniff",
    }


def _header_error(scope: Scope) -> GatewayError | None:
    """Return the error of invalid headers, which are refused for every route."""
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


def _start(headers: Headers) -> _Progress:
    client_id = headers.get("x-client-request-id", "")
    return _Progress(
        id=new_request_id(),
        client_id=client_id if _CLIENT_ID.fullmatch(client_id) else None,
        began=time.monotonic(),
        body_read="transfer-encoding" not in headers and headers.get("content-length", "0") == "0",
    )


async def _drain(receive: Receive) -> None:
    """Read and discard the rest of a body, within limits."""
    drained = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_TIMEOUT):
            while drained < DRAIN_BYTES:
                message = await receive()
                drained += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return


def _add_headers(headers: MutableHeaders, progress: _Progress, limits: dict[str, str]) -> None:
    headers.update(limits)
    headers.update(common_headers(progress.id, time.monotonic() - progress.began))
    if progress.client_id:
        headers["x-client-request-id"] = progress.client_id
    if not progress.body_read:
        # The request was refused before its body was read, so the connection can't be reused.
        headers["connection"] = "close"


def _method(method: str) -> str:
    return method if method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} else "other"
