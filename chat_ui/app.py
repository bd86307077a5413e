"""Serves the built chat page: a handful of files, each with the headers that keep the page to itself.

Knows nothing of chat: the page talks to the chat's API of its own origin, so whoever mounts this app must serve
``/api`` there too. Knows nothing of building either: a page that is not built is answered with 503.
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

# No 'unsafe-inline' anywhere, and images only from here: text that a model wrote can neither run nor call out.
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
# The page's own addresses (`web/src/router/routes.ts`), by their first part: what is below is for the page to know.
ADDRESSES = frozenset({"c", "shared", "sign-in", "sign-up", "account", "usage", "admin"})
# Vite puts a hash of the content into the name of every file in assets/, so such a file never changes.
HASHED_FOLDER = "assets"
FOREVER = "public, max-age=31536000, immutable"
ASK_EVERY_TIME = "no-cache"
NOT_BUILT = "The chat page is not built. Run 'npm ci && npm run build' in chat_ui/web, then reload.\n"


class SecurityHeaders:
    """Pure ASGI middleware that puts `SECURITY_HEADERS` on every response, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; add the headers to what comes back."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        await self.app(scope, receive, send_with_headers)


class BuiltPage(StaticFiles):
    """The files under `dist`, with cache headers; ``/`` and the page's addresses are the page. Paths that leave `dist`
    do not exist."""

    def __init__(self, dist: Path) -> None:
        super().__init__(directory=dist, check_dir=False)
        self.dist = dist

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 503 as long as there is no page; a build is seen without a restart."""
        if scope["type"] == "http" and not (self.dist / "index.html").is_file():
            await PlainTextResponse(NOT_BUILT, 503, {"cache-control": "no-store"})(scope, receive, send)
            return
        await super().__call__(scope, receive, send)

    def get_path(self, scope: Scope) -> str:
        """The file asked for, relative to `dist`."""
        path = super().get_path(scope)
        is_page = path == os.curdir or path.split(os.sep, maxsplit=1)[0] in ADDRESSES
        return "index.html" if is_page else path

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file at `path`, or an error, with the cache header of its folder."""
        response = await super().get_response(path, scope)
        hashed = path.split(os.sep, maxsplit=1)[0] == HASHED_FOLDER
        response.headers["cache-control"] = FOREVER if hashed else ASK_EVERY_TIME
        return response


def create_app(dist: Path) -> Starlette:
    """An app that serves the page built into `dist`, to be mounted at the root of the API's origin."""
    middleware = [Middleware(SecurityHeaders), Middleware(GZipMiddleware, minimum_size=1024)]
    return Starlette(routes=[Mount("/", BuiltPage(dist))], middleware=middleware)
