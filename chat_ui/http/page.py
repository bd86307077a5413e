"""Serves the built chat page as static files with security headers.

The page calls the chat API at its own origin, so ``/api`` must be mounted beside this app. While the page is not built,
every request gets a 503 response.
"""

import os
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# No 'unsafe-inline', and images from this origin only: text of a model can neither run scripts nor send requests.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "worker-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
# First path segments of the page's client-side routes (`web/src/router/routes.ts`).
CLIENT_ROUTES = frozenset(
    {"c", "shared", "sign-in", "sign-up", "forgot-password", "account", "usage", "batches", "documents", "admin"}
)
# Vite puts a hash of the content into the name of every file in assets/, so such a file never changes.
HASHED_FOLDER = "assets"
IMMUTABLE = "public, max-age=31536000, immutable"
REVALIDATE = "no-cache"
NOT_BUILT = "The chat page is not built. Run 'npm ci && npm run build' in chat_ui/web, then reload.\n"


class SecurityHeaders:
    """Pure ASGI middleware that puts `SECURITY_HEADERS` on every response, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the wrapped app and add the headers to its response."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        await self.app(scope, receive, send_with_headers)


class BuiltPage(StaticFiles):
    """Serves the files under `dist` with cache headers, and `index.html` at ``/`` and at the page's client-side routes.

    Paths that leave `dist` get 404.
    """

    def __init__(self, dist: Path) -> None:
        super().__init__(directory=dist, check_dir=False)
        self.dist = dist

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a file, or 503 while the page is not built. A later build is served without a restart."""
        if scope["type"] == "http" and not (self.dist / "index.html").is_file():
            await PlainTextResponse(NOT_BUILT, 503, {"cache-control": "no-store"})(scope, receive, send)
            return
        await super().__call__(scope, receive, send)

    def get_path(self, scope: Scope) -> str:
        """Return the path, relative to `dist`, of the file to serve: `index.html` for the page's client-side routes."""
        path = super().get_path(scope)
        is_page = path == os.curdir or path.split(os.sep, maxsplit=1)[0] in CLIENT_ROUTES
        return "index.html" if is_page else path

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return the response with the built file at `path`, or an error, with the cache header of its folder."""
        response = await super().get_response(path, scope)
        hashed = path.split(os.sep, maxsplit=1)[0] == HASHED_FOLDER
        response.headers["cache-control"] = IMMUTABLE if hashed else REVALIDATE
        return response


def create_app(dist: Path) -> Starlette:
    """Return an ASGI application that serves the chat page built into `dist`; mount it at the API origin's root."""
    middleware = [Middleware(SecurityHeaders), Middleware(GZipMiddleware, minimum_size=1024)]
    return Starlette(routes=[Mount("/", BuiltPage(dist))], middleware=middleware)
