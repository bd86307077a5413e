"""Who is asking, and whether they may. Every route names the scope that its callers need, unless it is marked public;
an app with another route does not start.

A dependency of the routes, never a match on paths: what the Host header or the path says cannot get round it.
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

from auth_billing.errors import InvalidApiKey
from auth_billing.keys.scopes import Scope
from auth_billing.service import Principal
from gateway.errors import AmbiguousCredentials, NotAuthenticated, ScopeMissing
from gateway.http.gateway import gateway_of

MAX_KEY_LENGTH = 256
PUBLIC = "__headrace_public__"

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class ApiKeySecurity(SecurityBase):
    """`Authorization: Bearer KEY`, and no other way: never a query parameter, which would end up in logs.

    Whoever has no right to `scope` gets no further, not even to having the body read.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.model = HTTPBearer(description="An API key")
        self.scheme_name = "ApiKey"

    async def __call__(self, request: Request) -> Principal:
        """The caller; raises as `caller` does."""
        return await self.caller(request)

    async def caller(self, request: Request) -> Principal:
        """Who is asking.

        Raises:
            NotAuthenticated, AmbiguousCredentials, InvalidApiKey, StoreUnavailable: not known who that is.
            ScopeMissing: known, and not allowed.
        """
        gateway = gateway_of(request)
        principal = await gateway.accounts.authenticate(read_key(request.headers))
        if request.client is not None:
            gateway.strangers.leaves(request.client)
        if not principal.may(self.scope):
            raise ScopeMissing(f"You have insufficient permissions for this operation. Missing scopes: {self.scope}.")
        return principal


def read_key(headers: Headers) -> str:
    """The one API key that a request carries.

    Raises:
        NotAuthenticated: none, or not as a bearer token.
        AmbiguousCredentials: several.
        InvalidApiKey: it can't be one, by its length or letters.
    """
    sent = headers.getlist("authorization")
    other = headers.getlist("x-api-key")
    if len(sent) > 1 or (sent and other and not all(sent[0].endswith(f" {key}") for key in other)):
        raise AmbiguousCredentials
    scheme, _, key = (sent[0] if sent else "").partition(" ")
    key = key.strip()
    if scheme.lower() != "bearer" or not key:
        raise NotAuthenticated
    if len(key) > MAX_KEY_LENGTH or not key.isascii() or not key.isprintable():
        raise InvalidApiKey
    return key


def public(endpoint: Endpoint) -> Endpoint:
    """Mark an endpoint as one that anybody may call."""
    setattr(endpoint, PUBLIC, True)
    return endpoint


def open_routes(app: FastAPI) -> list[str]:
    """Paths of routes that neither need a key nor are marked public: there must be none."""
    return [route.path or repr(route) for route in iter_route_contexts(app.routes) if not _is_closed_or_public(route)]


def _is_closed_or_public(route: RouteContext) -> bool:
    if not isinstance(route.original_route, APIRoute):
        return False
    return getattr(route.endpoint, PUBLIC, False) is True or guard_of(route.dependant) is not None


def guard_of(dependant: Dependant) -> ApiKeySecurity | None:
    """What asks for the caller's key among a route's dependencies."""
    if isinstance(dependant.call, ApiKeySecurity):
        return dependant.call
    return next((guard for inner in dependant.dependencies if (guard := guard_of(inner)) is not None), None)
