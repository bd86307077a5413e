"""Route class of the gateway's endpoints that honour the `Idempotency-Key` header.

A request with a key is authenticated and its body read here, and again by the route if it runs, so that a stored
response is never returned to another project, to a caller for whom the route would not run, or for another body.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, ClassVar

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from auth_billing.idempotency import KeyedRequest
from gateway.answers.shared_response import SharedResponse
from gateway.errors import InvalidIdempotencyKey, NotAuthenticated
from gateway.http import rate_limits
from gateway.http.authentication import guard_of
from gateway.http.dialect import OPENAI, Dialect
from gateway.http.disconnect import run_until_disconnect
from gateway.http.gateway import Gateway, gateway_of
from gateway.http.needed_rights import needed_rights
from gateway.http.routes.direct_route import DirectRoute
from gateway.http.sse import SharedEventStream
from runtime import strict_json

HEADER = b"idempotency-key"
REPLAYED = "idempotent-replayed"

_KEY = re.compile(rb"[\x20-\x7e]{1,255}")


class IdempotentRoute(DirectRoute):
    """A route that runs equal POSTs of a project with the same `Idempotency-Key` once, and repeats the response."""

    dialect: ClassVar[Dialect] = OPENAI

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request of the route.

        One with an `Idempotency-Key` is run once, and equal ones get its response.
        """
        keys = [value for name, value in scope["headers"] if name == HEADER]
        if not keys or scope["method"] != "POST":
            await super().handle(scope, receive, send)
            return
        request = Request(scope, receive)
        gateway = gateway_of(request)
        keyed, body = await self._read(request, gateway, keys)
        answer, joined = await gateway.idempotent.response_to(
            keyed, super().handle, scope, body, rate_limits.retained(scope)
        )
        with answer.reader():
            response = await run_until_disconnect(receive, self._response(gateway, answer, repeated=joined))
            await response(scope, receive, send)

    async def _read(self, request: Request, gateway: Gateway, keys: list[bytes]) -> tuple[KeyedRequest, bytes]:
        """Return the request's identity (project, path, key, fingerprint) and its body.

        Raises:
            InvalidIdempotencyKey: The header is repeated, empty, too long, or not printable ASCII.
            Exception: Any error with which the route itself would refuse the caller or the body.
        """
        if (guard := guard_of(self.dependant)) is None:
            raise NotAuthenticated  # unreachable: the application refuses to start with such a route
        principal = await guard.caller(request)
        gateway.protection.check()
        await rate_limits.enter(request, principal)
        if len(keys) > 1 or not _KEY.fullmatch(keys[0]):
            raise InvalidIdempotencyKey(
                "The Idempotency-Key must be one value of 1 to 255 printable ASCII characters.", param="Idempotency-Key"
            )
        settings = gateway.settings
        strict_json.check_headers(request.headers, settings.max_body_bytes, typed=self.dialect.typed_bodies)
        body = await strict_json.read_body(request.stream(), settings.max_body_bytes, settings.body_timeout)
        path = request.scope["path"]
        fingerprint, needed = await strict_json.parse(
            body, lambda value: (_fingerprint(value), needed_rights(path, value))
        )
        await needed.check(gateway, principal)
        return KeyedRequest(principal.tenant, principal.project, path, keys[0].decode(), fingerprint), body

    async def _response(self, gateway: Gateway, answer: SharedResponse, *, repeated: bool) -> Response:
        """Return the response for one of the clients that read `answer`."""
        head = await answer.started()
        headers = {**head.headers, REPLAYED: "true"} if repeated or answer.is_replay else head.headers
        if head.is_stream:
            return SharedEventStream(gateway, answer.chunks(), headers, lambda: answer.comment, self.dialect)
        return Response(await answer.wait_for_body(), head.status, headers)


def _fingerprint(value: Any) -> str:
    """Return a hash of a JSON value that does not depend on key order or white space."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
