"""HTTP/1.1 protocol of the gateway's connections: uvicorn's h11 protocol with limits that a public server needs.

Malformed HTTP is answered by OpenAI's error body with a request id, and the connection is closed; so is a connection on
which no request arrives in time. Every well-formed request goes to the application.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from gateway.errors import HeadersTimeout, MalformedHttp, TooManyConnections
from gateway.http.error_handlers import error_response
from gateway.http.gateway import Gateway
from gateway.http.request_context import common_headers, new_request_id
from gateway.http.unauthenticated_connections import UnauthenticatedConnections
from runtime.paired_writes import PairedWrites

HEAD_TIMEOUT = 10.0
"""Seconds in which a request line and its headers have to arrive, from their first byte."""
UNAUTHENTICATED_IDLE_TIMEOUT = 10
"""Seconds that a connection which has not authenticated may be idle; an address may have few of these."""
STOPPING_GRACE = 1.0
"""Seconds that a stopping server keeps an idle connection open, because a request may be on its way."""


class GatewayProtocol(H11Protocol):
    """HTTP/1.1 on one client connection, with a head timeout and a limit on unauthenticated connections."""

    _head_timer: asyncio.TimerHandle | None = None
    _stopping = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the new connection's idle timeout, and count it as unauthenticated.

        Refuse it if its address has too many.
        """
        super().connection_made(transport)
        self.transport = PairedWrites(transport)  # type: ignore[assignment]  # the methods that uvicorn calls
        # Behind a trusted proxy all connections are the proxy's, which limits their number itself.
        if self.client is not None and not self.config.proxy_headers and not self._unauthenticated.add(self.client):
            self._refuse(TooManyConnections())
            return
        self._set_idle_timeout()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def on_response_complete(self) -> None:
        """Start the connection's idle timeout after a response, or the next request if it has arrived."""
        self._set_idle_timeout()
        super().on_response_complete()

    def _set_idle_timeout(self) -> None:
        is_counted = self.client is not None and self.client in self._unauthenticated
        self.timeout_keep_alive = UNAUTHENTICATED_IDLE_TIMEOUT if is_counted else self.config.timeout_keep_alive

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the closed connection's timers, and stop counting it as unauthenticated."""
        self._unset_keepalive_if_required()
        self._set_head_timer(incomplete=False)
        if self.client is not None:
            self._unauthenticated.discard(self.client)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes received on the connection; close it if a request's head stays incomplete for `HEAD_TIMEOUT`."""
        super().data_received(data)
        if self._stopping and self.cycle is not None:
            self.cycle.keep_alive = False
        self._set_head_timer(incomplete=self.conn.their_state is h11.IDLE and not self.transport.is_closing())

    def shutdown(self) -> None:
        """Close the connection at the server's shutdown: after its current request, or if idle after a grace period."""
        if self.cycle is not None and not self.cycle.response_complete:
            super().shutdown()
        elif not self._stopping:
            self._stopping = True
            self.loop.call_later(min(STOPPING_GRACE, self._gateway.settings.shutdown_grace), self._close)

    def _close(self) -> None:
        if not self.transport.is_closing():
            super().shutdown()

    def send_400_response(self, _msg: str) -> None:
        """Answer received bytes that are not HTTP by OpenAI's error body with status 400, and close the connection."""
        self._refuse(MalformedHttp())

    @property
    def _gateway(self) -> Gateway:
        gateway: Gateway = self.config.app.state.gateway  # type: ignore[union-attr]
        return gateway

    @property
    def _unauthenticated(self) -> UnauthenticatedConnections:
        return self._gateway.unauthenticated

    def _set_head_timer(self, *, incomplete: bool) -> None:
        if incomplete and self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT, self._refuse, HeadersTimeout())
        elif not incomplete and self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, error: Exception) -> None:
        """Send an error response, unless another response has begun, and close the connection."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = error_response(error)
            answer.headers.update({**common_headers(new_request_id(), 0.0), "connection": "close"})
            for event in (
                h11.Response(status_code=answer.status_code, headers=answer.raw_headers),
                h11.Data(data=bytes(answer.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
