"""Route class of the gateway's endpoints that honour the `Idempotency-Key` header.

A request with a key is authenticated and its body read here, and again by the route if it runs, so that a stored
response is never returned to another project, to a caller that may not use the model or may not read a vector store
that was searched, or for another body.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, ClassVar

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from auth_billing.idempotency import KeyedRequest
from gateway.answers.shared_response import SharedResponse
from gateway.errors import InvalidIdempotencyKey, NotAuthenticated
from gateway.http import rate_limits
from gateway.http.authentication import guard_of
from gateway.http.dialect import OPENAI, Dialect
from gateway.http.disconnect import run_until_disconnect
from gateway.http.gateway import Gateway, gateway_of
from gateway.http.sse import SharedEventStream
from gateway.openai.responses.tools import FILE_SEARCH, MAX_STORES
from gateway.vector_stores.access import find_store
from runtime import strict_json

HEADER = b"idempotency-key"
REPLAYED = "idempotent-replayed"

_KEY = re.compile(rb"[\x20-\x7e]{1,255}")


class IdempotentRoute(APIRoute):
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
        fingerprint, model, stores = await strict_json.parse(
            body, lambda value: (_fingerprint(value), _model(value), _searched_stores(value))
        )
        if model is not None and principal.models.policies:
            gateway.catalogue.find(model, principal.models)
        for id in stores:
            await find_store(gateway, principal, id)
        path = request.scope["path"]
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


def _model(value: Any) -> str | None:
    model = value.get("model") if isinstance(value, dict) else None
    return model if isinstance(model, str) else None


def _searched_stores(value: Any) -> list[str]:
    """Return the ids of the vector stores that a request's file search names; none of a malformed request."""
    tools = value.get("tools") if isinstance(value, dict) else None
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and tool.get("type") == FILE_SEARCH:
            ids = tool.get("vector_store_ids")
            return [each for each in ids[:MAX_STORES] if isinstance(each, str)] if isinstance(ids, list) else []
    return []
