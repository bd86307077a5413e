"""HTTP/1.1 on one connection: uvicorn's h11 protocol, and what a public server needs besides.

What is not HTTP is refused in OpenAI's shape, with a request id, and the connection ends; a connection on which no
request arrives in time is closed. Knows no route: what is well-formed HTTP goes on to the application.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from gateway.errors import HeadTooSlow, MalformedHttp, TooManyConnections
from gateway.http.error_handlers import error_response
from gateway.http.gateway import Gateway
from gateway.http.request_context import new_request_id, standing_headers
from gateway.http.strangers import Strangers

HEAD_SECONDS = 10.0
"""In which the head of a request arrives, from its first byte."""
LEAVING_SECONDS = 1.0
"""How long a server that ends hears connections on which nothing is asked: a request may be on its way."""


class GatewayProtocol(H11Protocol):
    """The protocol of every connection."""

    _head_timer: asyncio.TimerHandle | None = None
    _leaving = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A silent connection is given up as one that was used before."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        # Behind a proxy that is trusted all connections are the proxy's, and how many there are is its affair.
        if self.client is None or self.config.proxy_headers:
            return
        if not self._strangers.arrives(self.client):
            self._refuse(TooManyConnections())

    def connection_lost(self, exc: Exception | None) -> None:
        """No timer outlives its connection."""
        self._unset_keepalive_if_required()
        self._watch_head(waiting=False)
        if self.client is not None:
            self._strangers.leaves(self.client)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, and see whether the head of a request is still incomplete."""
        super().data_received(data)
        if self._leaving and self.cycle is not None:
            self.cycle.keep_alive = False
        self._watch_head(waiting=self.conn.their_state is h11.IDLE and not self.transport.is_closing())

    def shutdown(self) -> None:
        """The server ends: what is asked from now on is the connection's last."""
        if self.cycle is not None and not self.cycle.response_complete:
            super().shutdown()
        elif not self._leaving:
            self._leaving = True
            self.loop.call_later(min(LEAVING_SECONDS, self._gateway.settings.shutdown_grace), self._leave)

    def _leave(self) -> None:
        if not self.transport.is_closing():
            super().shutdown()

    def send_400_response(self, _msg: str) -> None:
        """What was received is not HTTP."""
        self._refuse(MalformedHttp())

    @property
    def _gateway(self) -> Gateway:
        gateway: Gateway = self.config.app.state.gateway  # type: ignore[union-attr]
        return gateway

    @property
    def _strangers(self) -> Strangers:
        return self._gateway.strangers

    def _watch_head(self, *, waiting: bool) -> None:
        if waiting and self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._refuse, HeadTooSlow())
        elif not waiting and self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, error: Exception) -> None:
        """Answer, unless an answer is under way already, and hang up."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = error_response(error)
            answer.headers.update({**standing_headers(new_request_id(), 0.0), "connection": "close"})
            for event in (
                h11.Response(status_code=answer.status_code, headers=answer.raw_headers),
                h11.Data(data=bytes(answer.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
