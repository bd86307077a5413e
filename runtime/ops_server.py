"""Operations server of a process: serves its `/metrics`, `/healthz` and `/status` over HTTP on a separate port.

Responses are made from memory and call neither the broker nor the store. The server runs on the process's own event
loop, so that `/healthz` fails when that loop hangs. It has no authentication: bind it to an internal address.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

import structlog
import uvicorn
from prometheus_client import CollectorRegistry, make_asgi_app
from uvicorn.protocols.http.h11_impl import H11Protocol

from runtime.embedded_server import EmbeddedServer, wait_for
from runtime.lifecycle import StartupError

REQUEST_TIMEOUT = 5.0
"""Seconds after which a connection is closed, even if its request or its response is incomplete."""
REQUEST_BYTES = 16 * 1024
"""Maximum size of a request line with its headers."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_TEXT = "text/plain; charset=utf-8"
_HEADERS = [(b"cache-control", b"no-store"), (b"connection", b"close")]

_log = structlog.get_logger(__name__)


class _OpsProtocol(H11Protocol):
    """HTTP/1.1 protocol of a connection that lasts at most `REQUEST_TIMEOUT`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(REQUEST_TIMEOUT, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)


class OpsServer:
    """Serves a process's metrics, health and status over HTTP.

    Args:
        registry: The process's metrics.
        host: Address to listen on.
        port: Port to listen on; 0 chooses a free one, see `port` after `start`.
        status: Returns the process's current state as JSON values, for `headrace ps`; called on the event loop.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        host: str = "127.0.0.1",
        port: int = 0,
        status: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        self._metrics = make_asgi_app(registry, disable_compression=True)
        self._host = host
        self._port = port
        self._status = status
        self._server: EmbeddedServer | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """TCP port that the operations server listens on.

        Before `start` the configured one, where 0 means any free port.
        """
        return self._port

    async def start(self) -> None:
        """Bind the operations server's port, and serve `/metrics`, `/healthz` and `/status` in a background task.

        Raises:
            StartupError: The port is in use, or the address is not local.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            listener = socket.create_server((self._host, self._port), family=family)
        except OSError as error:
            raise StartupError(f"cannot serve metrics on {self._host}:{self._port}: {error.strerror}") from error
        self._port = int(listener.getsockname()[1])
        self._server = EmbeddedServer(_config(self._app))
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        await wait_for(self._server.listening, self._serving)

    async def stop(self) -> None:
        """Stop the operations server: stop listening and close all connections. Idempotent."""
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await self._serving
            self._server = None

    async def _app(self, scope: Message, receive: Receive, send: Send) -> None:
        async def respond(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await send(message)

        if scope["method"] not in ("GET", "HEAD"):
            await _send(respond, HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n")
            return
        try:
            match scope["path"]:
                case "/metrics":
                    await self._metrics(scope, receive, respond)
                case "/healthz":
                    await _send(respond, HTTPStatus.OK, b"ok\n")
                case "/status":
                    status = self._status() if self._status is not None else {}
                    await _send(respond, HTTPStatus.OK, json.dumps(status).encode(), "application/json")
                case _:
                    await _send(respond, HTTPStatus.NOT_FOUND, b"try /metrics, /healthz or /status\n")
        except Exception:  # noqa: BLE001 - a failing collector must not end the server; it is logged and answered
            _log.exception("ops page failed", path=scope["path"])
            await _send(respond, HTTPStatus.INTERNAL_SERVER_ERROR, b"internal error\n")


def _config(app: Callable[[Message, Receive, Send], Awaitable[None]]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        interface="asgi3",
        http=_OpsProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        h11_max_incomplete_event_size=REQUEST_BYTES,
        timeout_graceful_shutdown=1,
    )


async def _send(send: Send, status: HTTPStatus, body: bytes, content_type: str = _TEXT) -> None:
    headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status.value, "headers": headers})
    await send({"type": "http.response.body", "body": body})
