"""Who is calling, and whether it is our own page that calls. Every route has a guard, or the app does not start.

What changes something must carry `Content-Type: application/json` (which a form of another site can't send), our own
`Origin` (which every browser adds and no page can change), and the session's CSRF token, which only our page can read.
Guards are dependencies of routes, never matches on paths.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Request, Security
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.datastructures import Headers

from auth_billing.people.roles import Role
from auth_billing.people.sessions import BrowserSession
from chat_ui import cookies
from chat_ui.chat import chat_of
from chat_ui.errors import CrossSite
from infra.runtime import strict_json

CSRF_HEADER = "x-csrf-token"
SAFE = frozenset({"GET", "HEAD"})
MAX_BODY_BYTES = 64 * 1024
"""Unless the endpoint says that it takes more (`takes_up_to`)."""
PUBLIC = "__headrace_public__"
LARGEST_BODY = "__headrace_largest_body__"

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


async def our_page(request: Request) -> None:
    """See that a call that changes something comes from a page of this origin, as far as headers can tell.

    Raises:
        UnsupportedMediaType, BodyTooLarge, CrossSite
    """
    headers = request.headers
    strict_json.check_headers(headers, max_body_bytes(request))
    if headers.getlist("origin") != [own_origin(request.scope["scheme"], headers)]:
        raise CrossSite("the Origin is another")
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise CrossSite("another site's page")


async def signed_in(request: Request) -> BrowserSession:
    """Who is signed in, by the access cookie.

    Raises:
        InvalidSession, StoreUnavailable: not known who that is.
        CrossSite and what else `our_page` raises: the call would change something, and may be another site's.
    """
    access = chat_of(request).access
    if request.method not in SAFE:
        await our_page(request)
    session = await access.sessions.of(cookies.read(request, cookies.ACCESS))
    if request.method not in SAFE:
        check_csrf(request, access.csrf_token(session.id))
    return session


Caller = Annotated[BrowserSession, Security(signed_in)]


async def administrator(caller: Caller) -> BrowserSession:
    """Who is signed in, if he administers his organisation.

    Raises:
        NotPermitted
    """
    caller.actor.require(Role.ADMIN)
    return caller


Admin = Annotated[BrowserSession, Security(administrator)]
OurPage = Annotated[None, Security(our_page)]


def check_csrf(request: Request, token: str) -> None:
    """See that the call shows the CSRF token of its session.

    Raises:
        CrossSite: it does not.
    """
    shown = request.headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(shown.encode(), token.encode()):
        raise CrossSite("the CSRF token is missing or wrong")


def own_origin(scheme: str, headers: Headers) -> str:
    """This site's origin, as the browser that sent the request knows it."""
    return f"{scheme}://{headers.get('host', '')}".lower()


def public(endpoint: Endpoint) -> Endpoint:
    """Mark an endpoint as one for people who are not signed in."""
    setattr(endpoint, PUBLIC, True)
    return endpoint


def takes_up_to(body_bytes: int) -> Callable[[Endpoint], Endpoint]:
    """Mark an endpoint as one that takes larger bodies than others."""

    def mark(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, LARGEST_BODY, body_bytes)
        return endpoint

    return mark


def max_body_bytes(request: Request) -> int:
    """The largest body that the endpoint of `request` takes."""
    return int(getattr(request.scope.get("endpoint"), LARGEST_BODY, MAX_BODY_BYTES))


def unguarded_routes(app: FastAPI) -> list[str]:
    """Routes for which nobody need be signed in though they are not public, or that any site's page may call."""
    return [f"{route.path}" for route in iter_route_contexts(app.routes) if not _is_guarded(route)]


def _is_guarded(route: Any) -> bool:
    if not isinstance(route.original_route, APIRoute):
        return False
    guards = set(_calls(route.dependant))
    if getattr(route.endpoint, PUBLIC, False) is True:
        return set(route.methods or ()) <= SAFE or our_page in guards
    return signed_in in guards


def _calls(dependant: Dependant) -> list[Any]:
    return [dependant.call, *(call for inner in dependant.dependencies for call in _calls(inner))]
