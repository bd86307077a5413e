"""Runs the gateway's application under uvicorn on the process's event loop, with a graceful shutdown.

uvicorn uses h11, which is strict about malformed requests (`http_protocol.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

import structlog
import uvicorn
from fastapi import FastAPI

from gateway.errors import ServerShutdown
from gateway.http.gateway import Gateway
from gateway.http.http_protocol import GatewayProtocol
from gateway.settings import GatewaySettings
from runtime.embedded_server import EmbeddedServer, wait_for
from runtime.lifecycle import StartupError
from runtime.ops_server import OpsServer

LAST_EVENTS_TIMEOUT = 5
"""Seconds after the grace period in which the last events of interrupted streams are sent."""
UNREAD_MILLISECONDS = 60_000
"""Time after which the kernel closes the connection of a client that does not read (`TCP_USER_TIMEOUT`)."""
SEND_BUFFER_BYTES = 256 * 1024
"""Kernel send buffer per connection (the kernel doubles it). The default of megabytes would hide a slow client for as
long as it takes to fill."""
KEEP_ALIVE_TIMEOUT = 75
"""Seconds until an idle connection is closed: more than load balancers' 60, so that the load balancer closes it
first."""

_log = structlog.get_logger(__name__)


class BackgroundTaskDied(Exception):
    """Raised when a background task of the gateway died, so that the server stopped; the log has the reason."""


class _Server(EmbeddedServer):
    """The gateway's server, which also serves the connections in the backlog when it shuts down."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept the connections in the listeners' backlogs, which closing would reset, then shut the server down."""
        backlog = [connection for listener in sockets or () for connection in _accept_backlog(listener)]
        for server in self.servers:
            server.close()
        for connection in backlog:
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, connection)
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        """Create a connection's protocol as uvicorn does for connections that it accepts itself."""
        return GatewayProtocol(self.config, self.server_state, self.lifespan.state)


async def serve_app(app: FastAPI, settings: GatewaySettings, stop: asyncio.Event) -> None:
    """Serve the gateway's application until `stop` is set, then let running requests end within the grace period.

    Raises:
        StartupError: A port is in use, an address is not local, or the application does not start.
        BackgroundTaskDied: A background task died, so that the gateway can't answer requests any more.
    """
    gateway: Gateway = app.state.gateway
    listener = bind(settings.host, settings.port)
    server = _Server(_config(app, settings))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    failing = asyncio.create_task(gateway.failed.wait())
    ops = OpsServer(gateway.metrics.registry, settings.ops_host, settings.ops_port, lambda: gateway_status(gateway))
    try:
        await wait_for(server.listening, serving)
        if not server.listening.is_set():
            await serving
        await ops.start()
        host, port = listener_address(server)
        _log.info("gateway listening", host=host, port=port, ops_port=ops.port)
        await wait_for(stop, serving, failing)
        if gateway.failed.is_set():
            raise BackgroundTaskDied
    finally:
        failing.cancel()
        await _shut_down(server, serving, gateway, settings.shutdown_grace)
        await ops.stop()


def bind(host: str, port: int) -> socket.socket:
    """Open and return the gateway's listening TCP socket.

    Its connections have keep-alive and a timeout for unread data.

    Raises:
        StartupError: The port is in use, or the address is not local.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise StartupError(
            f"cannot listen on {host}:{port}: {error.strerror} (HEADRACE_PORT chooses another)"
        ) from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MILLISECONDS)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    return listener


def _accept_backlog(listener: socket.socket) -> list[socket.socket]:
    """Accept all pending connections, then stop listening."""
    accepted = []
    with contextlib.suppress(BlockingIOError):
        while True:
            accepted.append(listener.accept()[0])
    listener.shutdown(socket.SHUT_RDWR)
    return accepted


def listener_address(server: uvicorn.Server) -> tuple[str, int]:
    """Return the address and port on which a started server listens, also where the system has chosen the port."""
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    return host, port


def gateway_status(gateway: Gateway) -> dict[str, Any]:
    """Return this gateway's id, broker state, number of open jobs and live models, as JSON values for `/status`."""
    return {
        "gateway": gateway.settings.gateway_id,
        "broker": gateway.bus.state.value,
        "jobs": len(gateway.inbox),
        "models": [model.name for model in gateway.models.models() if model.alive],
    }


def _config(app: FastAPI, settings: GatewaySettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=GatewayProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_keep_alive=KEEP_ALIVE_TIMEOUT,
        timeout_graceful_shutdown=int(settings.shutdown_grace) + LAST_EVENTS_TIMEOUT,
    )


async def _shut_down(server: uvicorn.Server, serving: asyncio.Task[None], gateway: Gateway, grace: float) -> None:
    """Stop accepting connections, wait `grace` seconds for running requests, then fail the rest with an error."""
    server.should_exit = True
    gateway.stopping.set()
    await asyncio.wait({serving}, timeout=grace)
    if not serving.done():
        if len(gateway.inbox):
            _log.warning("ending requests that are still running", jobs=len(gateway.inbox))
        gateway.inbox.fail_all(ServerShutdown())
    await serving
