"""Checks session, role and CSRF protection of requests to the chat API, as FastAPI dependencies; sets body limits.

A request that changes something must carry `Content-Type: application/json` (which a form of another site can't send),
this site's `Origin` (which browsers add and pages can't change), and the session's CSRF token, which only this site's
page can read. The application does not start if a route lacks these checks (`unguarded_routes`).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Request, Security
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.datastructures import Headers

from auth_billing.access.roles import Role
from auth_billing.errors import NotPermitted
from auth_billing.people.sessions import BrowserSession
from chat_ui.errors import CrossSite
from chat_ui.http import cookies
from chat_ui.services import services_of
from runtime import strict_json

CSRF_HEADER = "x-csrf-token"
SAFE_METHODS = frozenset({"GET", "HEAD"})
MAX_BODY_BYTES = 64 * 1024
"""Largest request body, unless the endpoint sets another limit (`max_body`)."""
PUBLIC = "__headrace_public__"
MAX_BODY = "__headrace_largest_body__"

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


async def same_origin(request: Request) -> None:
    """Check that a request is from a page of this site (Origin, Sec-Fetch-Site), with a JSON body or none.

    A FastAPI dependency of routes with side effects.

    Raises:
        UnsupportedMediaType, BodyTooLarge: by the headers, the body can't be read.
        CrossSite: the request may come from another site's page.
    """
    headers = request.headers
    strict_json.check_headers(headers, max_body_bytes(request))
    if headers.getlist("origin") != [own_origin(request.scope["scheme"], headers)]:
        raise CrossSite("the Origin is another")
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise CrossSite("another site's page")


async def signed_in(request: Request) -> BrowserSession:
    """Return the browser session that the request's access cookie proves.

    A FastAPI dependency of routes for signed-in users; requests with side effects are checked for CSRF.

    Raises:
        InvalidSession, StoreUnavailable: the session is not valid, or can't be checked.
        CrossSite and the other errors of `same_origin`: the request changes something and may come from another site.
    """
    access = services_of(request).access
    is_safe = request.method in SAFE_METHODS
    if not is_safe:
        await same_origin(request)
    session = await access.sessions.authenticate(cookies.read(request, cookies.ACCESS), cached=is_safe)
    if not is_safe:
        check_csrf(request, access.csrf_token(session.id))
    return session


Caller = Annotated[BrowserSession, Security(signed_in)]


async def administrator(caller: Caller) -> BrowserSession:
    """Return the session of a caller who is an administrator or owner of its organisation; a FastAPI dependency.

    Raises:
        NotPermitted: the caller's role is below administrator.
    """
    caller.actor.require(Role.ADMIN)
    return caller


async def operator(request: Request, caller: Caller) -> BrowserSession:
    """Return the session of an operator: administrator or owner of the organisation that operates the installation.

    A FastAPI dependency.

    Raises:
        NotPermitted: the caller is no operator, but may administer another organisation.
    """
    if not services_of(request).admin.is_operator(caller.actor):
        raise NotPermitted("for administrators of the operator's organisation")
    return caller


Admin = Annotated[BrowserSession, Security(administrator)]
Operator = Annotated[BrowserSession, Security(operator)]
SameOrigin = Annotated[None, Security(same_origin)]


def check_csrf(request: Request, token: str) -> None:
    """Check that the request's header has the CSRF token `token` of its session.

    Raises:
        CrossSite: the token is missing or wrong.
    """
    received = request.headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(received.encode(), token.encode()):
        raise CrossSite("the CSRF token is missing or wrong")


def own_origin(scheme: str, headers: Headers) -> str:
    """Return this site's origin (scheme, host, port) as the browser sees it, by a request's scheme and Host header."""
    return f"{scheme}://{headers.get('host', '')}".lower()


def public(endpoint: Endpoint) -> Endpoint:
    """Mark a route's endpoint as usable without a session, for `unguarded_routes`; return the endpoint (decorator)."""
    setattr(endpoint, PUBLIC, True)
    return endpoint


def max_body(body_bytes: int) -> Callable[[Endpoint], Endpoint]:
    """Return a decorator that sets the largest request body that an endpoint accepts, in bytes."""

    def decorate(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, MAX_BODY, body_bytes)
        return endpoint

    return decorate


def max_body_bytes(request: Request) -> int:
    """Return the most body bytes that the endpoint of `request` accepts: what `max_body` set, or the default."""
    return int(getattr(request.scope.get("endpoint"), MAX_BODY, MAX_BODY_BYTES))


def unguarded_routes(app: FastAPI) -> list[str]:
    """Return the paths of routes that are not public but lack a session or CSRF checks; empty if all are guarded."""
    return [f"{route.path}" for route in iter_route_contexts(app.routes) if not _is_guarded(route)]


def _is_guarded(route: Any) -> bool:
    if not isinstance(route.original_route, APIRoute):
        return False
    guards = set(_dependencies(route.dependant))
    if getattr(route.endpoint, PUBLIC, False) is True:
        return set(route.methods or ()) <= SAFE_METHODS or same_origin in guards
    return signed_in in guards


def _dependencies(dependant: Dependant) -> list[Any]:
    return [dependant.call, *(call for inner in dependant.dependencies for call in _dependencies(inner))]
