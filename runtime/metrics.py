"""The operator's window into a process: `/metrics`, `/healthz` and `/status` on a port of its own.

Answers from what is in memory and asks no broker or store, so it is fast when they are not. It runs on the
process's own event loop: when that hangs, `/healthz` hangs with it, which is the truth. No web framework, for the
worker imports none.

Meant for loopback or an internal network: it knows no users and checks no keys.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from runtime.lifecycle import StartupError

REQUEST_TIMEOUT = 5.0
"""Seconds that a client has to send its request and take the answer."""
REQUEST_BYTES = 16 * 1024

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    accept: str


@dataclass(frozen=True)
class _Answer:
    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


class OpsServer:
    """Serves a process's metrics, health and status over HTTP.

    Args:
        registry: the process's metrics.
        host: loopback, unless an operator says otherwise.
        port: 0 takes a free one; see `port` after `start`.
        live: what the process is doing now, JSON-able, for `headrace ps`; called on the event loop.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        host: str = "127.0.0.1",
        port: int = 0,
        live: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        self._registry = registry
        self._host = host
        self._port = port
        self._live = live
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port served; the one asked for until started."""
        return self._port

    async def start(self) -> None:
        """Listen.

        Raises:
            StartupError: the port is taken or the address is not ours.
        """
        try:
            self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=REQUEST_BYTES)
        except OSError as error:
            raise StartupError(f"cannot serve metrics on {self._host}:{self._port}: {error.strerror}") from error
        self._port = int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                request = await _read_request(reader)
                answer = self._answer(request)
                writer.write(_encode(answer, with_body=request is None or request.method != "HEAD"))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass  # a client that went or dawdles: nobody to tell
        finally:
            writer.close()

    def _answer(self, request: _Request | None) -> _Answer:
        if request is None:
            return _Answer(HTTPStatus.BAD_REQUEST, b"bad request\n")
        if request.method not in ("GET", "HEAD"):
            return _Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n")
        try:
            return self._page(request)
        except Exception:  # noqa: BLE001 - a broken collector must not end the server; it is logged and answered
            _log.exception("ops page failed", path=request.path)
            return _Answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"internal error\n")

    def _page(self, request: _Request) -> _Answer:
        if request.path == "/metrics":
            encode, content_type = choose_encoder(request.accept)
            return _Answer(HTTPStatus.OK, encode(self._registry), content_type)
        if request.path == "/healthz":
            return _Answer(HTTPStatus.OK, b"ok\n")
        if request.path == "/status":
            status = self._live() if self._live is not None else {}
            return _Answer(HTTPStatus.OK, json.dumps(status).encode(), "application/json")
        return _Answer(HTTPStatus.NOT_FOUND, b"try /metrics, /healthz or /status\n")


async def _read_request(reader: asyncio.StreamReader) -> _Request | None:
    """The request line and `Accept`; `None` if it is not HTTP or too long. Bodies are not read."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return None
    first, *rest = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        return None
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    return _Request(parts[0], parts[1].partition("?")[0], headers.get("accept", ""))


def _encode(answer: _Answer, *, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (answer.body if with_body else b"")
