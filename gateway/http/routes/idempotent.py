"""The route class of endpoints that honour the `Idempotency-Key` header; without the header it costs a look.

A request with a key is authenticated and read here, and again by the route if it runs: the kept answer of somebody
else, or of another body, is never shown.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from auth_billing.idempotency import KeyedRequest
from gateway.answers.live_answer import Head, LiveAnswer
from gateway.errors import InvalidIdempotencyKey, NotAuthenticated
from gateway.http import rate_limits
from gateway.http.authenticate import guard_of
from gateway.http.disconnect import unless_gone
from gateway.http.gateway import Gateway, gateway_of
from gateway.http.sse import SharedEventStream
from runtime import strict_json

HEADER = b"idempotency-key"
REPLAYED = "idempotent-replayed"

_KEY = re.compile(rb"[\x20-\x7e]{1,255}")


class IdempotentRoute(APIRoute):
    """A route whose POST runs once per key."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, by running or by repeating."""
        keys = [value for name, value in scope["headers"] if name == HEADER]
        if not keys or scope["method"] != "POST":
            await super().handle(scope, receive, send)
            return
        request = Request(scope, receive)
        gateway = gateway_of(request)
        keyed, body = await self._read(request, gateway, keys)
        answer, asked_before = await gateway.idempotent.answer_to(
            keyed, rate_limits.shared(super().handle), scope, body
        )
        with answer.read_by_one_more():
            response = await unless_gone(receive, _response(gateway, answer, repeated=asked_before))
            await response(scope, receive, send)

    async def _read(self, request: Request, gateway: Gateway, keys: list[bytes]) -> tuple[KeyedRequest, bytes]:
        """The request within its scope, and its body.

        Raises:
            InvalidIdempotencyKey: there are several, or it is empty, too long, or not printable ASCII.
            Exception: whatever the route itself would say of the caller or the bytes of the body.
        """
        if (guard := guard_of(self.dependant)) is None:
            raise NotAuthenticated  # never of an app that has started: such a route is an open one
        principal = await guard.caller(request)
        gateway.protection.check()
        await rate_limits.enter(request, principal)
        if len(keys) > 1 or not _KEY.fullmatch(keys[0]):
            raise InvalidIdempotencyKey(
                "The Idempotency-Key must be one value of 1 to 255 printable ASCII characters.", param="Idempotency-Key"
            )
        settings = gateway.settings
        strict_json.check_headers(request.headers, settings.max_body_bytes)
        body = await strict_json.read_body(request.stream(), settings.max_body_bytes, settings.body_timeout)
        fingerprint = await strict_json.parse(body, _fingerprint)
        return KeyedRequest(principal.tenant, self.path, keys[0].decode(), fingerprint), body


def _fingerprint(value: Any) -> str:
    """The same for JSON that differs in order and spacing only."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


async def _response(gateway: Gateway, answer: LiveAnswer, *, repeated: bool) -> Response:
    """The answer, for one of its readers."""
    head = await answer.started()
    headers = _headers(head, repeated=repeated or answer.is_repetition)
    if head.is_stream:
        return SharedEventStream(gateway, answer.chunks(), headers, lambda: answer.comment)
    return Response(await answer.whole_body(), head.status, headers)


def _headers(head: Head, *, repeated: bool) -> dict[str, str]:
    return {**head.headers, REPLAYED: "true"} if repeated else head.headers
