"""Sets, reads and deletes the chat's cookies: a session's access, refresh and CSRF tokens, and a provider's sign-in.

Over https their names have the prefix `__Host-`: the browser then accepts them from this host only, with path `/`, and
never sends them unencrypted. Over plain http (a laptop, a private network) browsers refuse that prefix, so the names
are without it and the two sets are never confused. All are `HttpOnly` but the CSRF token, which the page reads.
"""

from __future__ import annotations

from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

from auth_billing.people.access_tokens import SECONDS_VALID
from auth_billing.people.oidc.transactions import LIFETIME
from auth_billing.people.sessions import MAX_SESSION_AGE

ACCESS, REFRESH, CSRF = "headrace-access", "headrace-refresh", "headrace-csrf"
OIDC = "headrace-oidc"
SECURE_PREFIX = "__Host-"


def read(request: Request, name: str) -> str:
    """Return the value of one of the chat's cookies; empty if the request does not have the cookie."""
    return request.cookies.get(_name(request, name), "")


def set_session(request: Request, response: Response, access: str, refresh: str, csrf: str) -> None:
    """Set the three cookies of a browser session on the response: access token, refresh token and CSRF token."""
    _set(request, response, ACCESS, access, SECONDS_VALID)
    _set(request, response, REFRESH, refresh, int(MAX_SESSION_AGE))
    _set(request, response, CSRF, csrf, int(MAX_SESSION_AGE), readable_by_scripts=True)


def clear_session(request: Request, response: Response) -> None:
    """Make the response delete the three cookies of a browser session."""
    for name in (ACCESS, REFRESH, CSRF):
        _set(request, response, name, "", 0, readable_by_scripts=name == CSRF)


def set_transaction(request: Request, response: Response, cookie: str) -> None:
    """Set the cookie that binds a sign-in at the identity provider to this browser; an empty `cookie` deletes it."""
    _set(request, response, OIDC, cookie, LIFETIME if cookie else 0)


def _set(
    request: Request, response: Response, name: str, value: str, seconds: int, *, readable_by_scripts: bool = False
) -> None:
    same_site: Literal["lax", "strict"] = "strict" if readable_by_scripts else "lax"
    response.set_cookie(
        _name(request, name),
        value,
        max_age=seconds,
        path="/",
        secure=_is_secure(request),
        httponly=not readable_by_scripts,
        samesite=same_site,
    )


def _name(request: Request, name: str) -> str:
    return SECURE_PREFIX + name if _is_secure(request) else name


def _is_secure(request: Request) -> bool:
    return bool(request.scope["scheme"] == "https")
