"""The three cookies of a session: access token, refresh token, and the CSRF token that our page reads from its own.

Over https they have the prefix `__Host-`: the browser then takes them from this very host only, for all of it, and
never sends them in the clear. Over plain http (a laptop, a private network) there is no such thing: they have other
names, so that one kind is never taken for the other. No script can read the first two.
"""

from __future__ import annotations

from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

from auth_billing.people.access_tokens import SECONDS_VALID
from auth_billing.people.sessions import SECONDS_AT_MOST

ACCESS, REFRESH, CSRF = "headrace-access", "headrace-refresh", "headrace-csrf"
SECURE_PREFIX = "__Host-"


def read(request: Request, name: str) -> str:
    """A cookie's value; empty if it was not sent."""
    return request.cookies.get(_name(request, name), "")


def set_session(request: Request, response: Response, access: str, refresh: str, csrf: str) -> None:
    """Give the browser a session's tokens."""
    _set(request, response, ACCESS, access, SECONDS_VALID)
    _set(request, response, REFRESH, refresh, int(SECONDS_AT_MOST))
    _set(request, response, CSRF, csrf, int(SECONDS_AT_MOST), for_scripts=True)


def clear_session(request: Request, response: Response) -> None:
    """Take them away."""
    for name in (ACCESS, REFRESH, CSRF):
        _set(request, response, name, "", 0, for_scripts=name == CSRF)


def _set(
    request: Request, response: Response, name: str, value: str, seconds: int, *, for_scripts: bool = False
) -> None:
    same_site: Literal["lax", "strict"] = "strict" if for_scripts else "lax"
    response.set_cookie(
        _name(request, name),
        value,
        max_age=seconds,
        path="/",
        secure=_is_secure(request),
        httponly=not for_scripts,
        samesite=same_site,
    )


def _name(request: Request, name: str) -> str:
    return SECURE_PREFIX + name if _is_secure(request) else name


def _is_secure(request: Request) -> bool:
    return bool(request.scope["scheme"] == "https")
