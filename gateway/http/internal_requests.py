"""Requests of a gateway to its own application, with idempotency keys: lines of batches, embeddings of imported files.

So such a request is validated, admitted, limited and billed as any other, and another gateway that repeats it after a
crash gets the stored answer instead of a second bill.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message

from auth_billing.access.principal import Principal
from gateway.errors import InvalidRequest
from gateway.http.authentication import SCOPE_PRINCIPAL
from gateway.http.http_errors import error_body
from gateway.http.request_context import new_request_id

MAX_TRIES = 8
"""Times that a request is made if the answer is an error of the service that may pass."""
MAX_WAIT = 60.0
"""Most seconds between two tries of a request."""
_REPEATED = frozenset({408, 409, 429, 503})
"""Statuses of requests that may run later; these are repeated without end."""


@dataclass(frozen=True)
class InternalAnswer:
    """The HTTP response to a request of the gateway to its own application."""

    status: int
    headers: Headers
    body: bytes

    @staticmethod
    def refused(message: str, param: str) -> InternalAnswer:
        """Return the answer 400 to a request that is not sent, because its field `param` has no meaning here."""
        error = InvalidRequest(message, param=param, code="unsupported_parameter")
        return InternalAnswer(400, Headers({"x-request-id": new_request_id()}), json.dumps(error_body(error)).encode())

    @property
    def is_busy(self) -> bool:
        """Whether the service was too busy for the request, or ran another one with the same key."""
        return self.status in _REPEATED

    @property
    def request_id(self) -> str:
        """Id of the request, as in the logs."""
        return self.headers.get("x-request-id", "")

    def wait_before_retry(self, tries: int) -> float | None:
        """Return the seconds after which to repeat the request, which was made `tries` times.

        `None`: this answer is final.
        """
        if self.status < 408 or self.headers.get("x-should-retry") == "false":
            return None
        if self.status not in _REPEATED and (self.status < 500 or tries >= MAX_TRIES):
            return None
        stated = self.headers.get("retry-after", "")
        least = float(stated) if stated.isdecimal() else 0.0
        return min(MAX_WAIT, max(least, 0.25 * float(2 ** min(tries, 8))))


async def request_internally(
    app: ASGIApp, principal: Principal, endpoint: str, key: str, body: bytes, *, address: str = ""
) -> InternalAnswer:
    """Send one POST request to `endpoint` of the gateway's application `app` as `principal`, and return the response.

    `key` is the request's idempotency key. `address`: the network address of the client that the request is made for;
    empty: none. Cancelling the call disconnects.
    """
    unread = [body]
    never = asyncio.Event()
    head: dict[str, Any] = {}
    received: list[bytes] = []

    async def receive() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        await never.wait()
        raise AssertionError("unreachable")

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            head.update(message)
        else:
            received.append(message.get("body", b""))

    await app(_scope(principal, endpoint, key, len(body), address), receive, send)
    return InternalAnswer(head["status"], Headers(raw=list(head.get("headers", ()))), b"".join(received))


def _scope(principal: Principal, endpoint: str, key: str, size: int, address: str) -> dict[str, Any]:
    headers = [
        (b"host", b"internal"),
        (b"content-type", b"application/json"),
        (b"content-length", str(size).encode()),
        (b"idempotency-key", key.encode()),
    ]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": endpoint,
        "raw_path": endpoint.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": (address, 0) if address else None,
        "server": ("internal", 80),
        SCOPE_PRINCIPAL: principal,
    }
