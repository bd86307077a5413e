"""Who is asking. Every route needs a key unless it is marked public; an app with a route that has neither does not start.

A dependency of the routes, never a match on paths: what the Host header or the path says cannot get round it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Request, Security
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security.base import SecurityBase
from starlette.datastructures import Headers
from starlette.routing import BaseRoute

from auth_billing.errors import InvalidApiKey
from auth_billing.service import Principal
from fastapi.openapi.models import HTTPBearer
from gateway.errors import AmbiguousCredentials, NotAuthenticated
from gateway.gateway import gateway_of

MAX_KEY_LENGTH = 256
PUBLIC = "__headrace_public__"

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class ApiKeySecurity(SecurityBase):
    """`Authorization: Bearer KEY`, and no other way: never a query parameter, which would end up in logs."""

    def __init__(self) -> None:
        self.model = HTTPBearer(description="An API key")
        self.scheme_name = "ApiKey"

    async def __call__(self, request: Request) -> Principal:
        """The caller.

        Raises:
            NotAuthenticated, AmbiguousCredentials, InvalidApiKey, StoreUnavailable: not known who that is.
        """
        return await gateway_of(request).accounts.authenticate(read_key(request.headers))


authenticate = ApiKeySecurity()
Caller = Annotated[Principal, Security(authenticate)]


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
    return [getattr(route, "path", repr(route)) for route in _routes(app.routes) if not _is_closed_or_public(route)]


def _routes(routes: list[BaseRoute]) -> Iterator[BaseRoute]:
    for route in routes:
        nested = getattr(route, "routes", None)
        if nested:
            yield from _routes(nested)
        else:
            yield route


def _is_closed_or_public(route: BaseRoute) -> bool:
    if not isinstance(route, APIRoute):
        return False
    return getattr(route.endpoint, PUBLIC, False) is True or _requires(route.dependant)


def _requires(dependant: Dependant) -> bool:
    return dependant.call is authenticate or any(_requires(inner) for inner in dependant.dependencies)
