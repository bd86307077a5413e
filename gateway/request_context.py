"""Around every request: its id, trace and time, in headers, logs and metrics; and the last net under exceptions.

Pure ASGI, so that streams pass through untouched. Knows no route and no body.
"""

from __future__ import annotations

import re
import time
import uuid
from dataclasses import dataclass

import structlog
from opentelemetry import context as trace_context
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.error_handlers import error_response
from gateway.metrics import GatewayMetrics
from infra.runtime import tracing

OPENAI_VERSION = "2020-10-01"
"""The version of the API's conventions that OpenAI itself sends."""

_CLIENT_ID = re.compile(r"[\x21-\x7e]{1,512}")

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
                _add_headers(MutableHeaders(scope=message), progress)
            await send(message)

        try:
            await self._app(scope, received, sent)
        except Exception as error:  # noqa: BLE001 - the last net: a client gets an OpenAI-shaped 500, a person the log
            _log.exception("request failed")
            if progress.status is None:
                await error_response(error)(scope, received, sent)

    def _count(self, scope: Scope, progress: _Progress) -> None:
        route = getattr(scope.get("route"), "path", "unmatched")
        self._metrics.requests.labels(route, _method(scope["method"]), str(progress.status or 499)).inc()
        self._metrics.request_seconds.labels(route).observe(time.monotonic() - progress.began)


def _begin(headers: Headers) -> _Progress:
    asked = headers.get("x-client-request-id", "")
    return _Progress(
        id=f"req_{uuid.uuid4().hex}",
        client_id=asked if _CLIENT_ID.fullmatch(asked) else None,
        began=time.monotonic(),
        body_read="transfer-encoding" not in headers and headers.get("content-length", "0") == "0",
    )


def _add_headers(headers: MutableHeaders, progress: _Progress) -> None:
    headers["x-request-id"] = progress.id
    if progress.client_id:
        headers["x-client-request-id"] = progress.client_id
    headers["openai-processing-ms"] = str(int((time.monotonic() - progress.began) * 1000))
    headers["openai-version"] = OPENAI_VERSION
    headers["x-content-type-options"] = "nosniff"
    if not progress.body_read:
        # Refused before it was read: what is still to come is not read either.
        headers["connection"] = "close"


def _method(method: str) -> str:
    return method if method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} else "other"
