"""ASGI middleware for cross-origin requests of browsers: the operator's origins may call the API, never administration.

Requests carry their API key in a header. Cookies are never allowed, and the chat's own API, which has them, is left
out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

API = "/v1/"
"""Beginning of the paths of the API."""
ADMINISTRATION = ("/v1/organization", "/v1/operator")
"""Beginnings of API paths that get no CORS headers."""


class ApiCors:
    """Answers preflight requests, and adds CORS headers to responses, of API paths for pages of `origins`."""

    def __init__(self, app: ASGIApp, origins: Sequence[str], paths: Collection[str]) -> None:
        """`paths`: paths of the API that are not below `/v1`."""
        self._app = app
        self._paths = frozenset(paths)
        self._cors = CORSMiddleware(
            app, allow_origins=origins, allow_methods=["*"], allow_headers=["*"], expose_headers=["*"]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, with CORS if its path is one of the API."""
        app = self._cors if scope["type"] == "http" and self._is_open(scope["path"]) else self._app
        await app(scope, receive, send)

    def _is_open(self, path: str) -> bool:
        return path in self._paths or (path.startswith(API) and not path.startswith(ADMINISTRATION))
