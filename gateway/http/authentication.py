"""Authenticates the API key of a request and checks its scope, as a dependency of each route of the gateway.

Every route declares the scope that its callers need or is marked public; an application with any other route does not
start. Because it is a dependency and not a match on paths, a crafted Host header or path cannot bypass it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.dependencies.models import Dependant
from fastapi.openapi.models import HTTPBearer
from fastapi.routing import APIRoute, RouteContext, iter_route_contexts
from fastapi.security.base import SecurityBase
from starlette.datastructures import Headers

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope
from auth_billing.errors import InvalidApiKey
from gateway.errors import AmbiguousCredentials, NotAuthenticated, ScopeMissing
from gateway.http.gateway import gateway_of

MAX_KEY_LENGTH = 256
PUBLIC = "__headrace_public__"
SCOPE_PRINCIPAL = "headrace.principal"
"""Key of the ASGI scope with the principal of a request that this process makes itself; no client can set it."""

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class ApiKeySecurity(SecurityBase):
    """Security dependency that reads `Authorization: Bearer KEY` and requires `scope`, before the body is read.

    Anthropic's clients may send the key in `x-api-key` instead.
    A key in a query parameter is not accepted, because it would end up in logs.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.model = HTTPBearer(description="An API key")
        self.scheme_name = "ApiKey"

    async def __call__(self, request: Request) -> Principal:
        """Authenticate a request's API key for FastAPI, and return its principal. Raises as `caller` does."""
        return await self.caller(request)

    async def caller(self, request: Request) -> Principal:
        """Authenticate the API key in a request's headers, check its scope, and return the principal.

        Raises:
            NotAuthenticated, AmbiguousCredentials, InvalidApiKey, StoreUnavailable: The caller can't be authenticated.
            ScopeMissing: The key lacks `scope`.
        """
        gateway = gateway_of(request)
        principal: Principal | None = request.scope.get(SCOPE_PRINCIPAL)
        if principal is None:
            principal = await gateway.authenticator.authenticate(read_key(request.headers))
        if request.client is not None:
            gateway.unauthenticated.discard(request.client)
        if not principal.may(self.scope):
            raise ScopeMissing(self.scope)
        return principal


def read_key(headers: Headers) -> str:
    """Return the API key in a request's `Authorization: Bearer` header, or in the header `x-api-key`.

    Raises:
        NotAuthenticated: There is no key.
        AmbiguousCredentials: There is more than one key.
        InvalidApiKey: The key is too long or has characters that no key has.
    """
    sent = headers.getlist("authorization")
    other = headers.getlist("x-api-key")
    if len(sent) > 1 or len(other) > 1 or (sent and other and not sent[0].endswith(f" {other[0]}")):
        raise AmbiguousCredentials
    scheme, _, key = sent[0].partition(" ") if sent else ("bearer", "", other[0] if other else "")
    key = key.strip()
    if scheme.lower() != "bearer" or not key:
        raise NotAuthenticated
    if len(key) > MAX_KEY_LENGTH or not key.isascii() or not key.isprintable():
        raise InvalidApiKey
    return key


def public(endpoint: Endpoint) -> Endpoint:
    """Mark a route's function as callable without an API key, so that `unprotected_routes` accepts it (decorator)."""
    setattr(endpoint, PUBLIC, True)
    return endpoint


def unprotected_routes(app: FastAPI) -> list[str]:
    """Return the paths of the routes that neither require a key nor are marked public.

    At start-up there must be none.
    """
    return [
        route.path or repr(route) for route in iter_route_contexts(app.routes) if not _is_protected_or_public(route)
    ]


def _is_protected_or_public(route: RouteContext) -> bool:
    if not isinstance(route.original_route, APIRoute):
        return False
    return getattr(route.endpoint, PUBLIC, False) is True or guard_of(route.dependant) is not None


def guard_of(dependant: Dependant) -> ApiKeySecurity | None:
    """Return the `ApiKeySecurity` among a route's dependencies; `None` if the route has none."""
    if isinstance(dependant.call, ApiKeySecurity):
        return dependant.call
    return next((guard for inner in dependant.dependencies if (guard := guard_of(inner)) is not None), None)
