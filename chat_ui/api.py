"""The chat's API below `/api`: who signs in, who is there, who may come. Mounted by whoever serves the page.

Answers in one shape, errors too; nothing that was sent is repeated. Knows no OpenAI and no model.
"""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from auth_billing.errors import AccountError
from chat_ui.answers import error_answer
from chat_ui.app import SecurityHeaders
from chat_ui.chat import Chat
from chat_ui.errors import ChatError, MethodNotAllowed, UnknownUrl
from chat_ui.guard import unguarded_routes
from chat_ui.routes import account, people, session
from infra.runtime.lifecycle import StartupError
from infra.runtime.strict_json import MalformedRequest

PREFIX = "/api"


def create_api(chat: Chat) -> FastAPI:
    """The application, to be called with paths that begin with `PREFIX`.

    Raises:
        StartupError: a route has no guard.
    """
    app = FastAPI(title="Headrace chat", redirect_slashes=False, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.chat = chat
    for routes in (session, account, people):
        app.include_router(routes.router, prefix=PREFIX)
    for kind in (ChatError, AccountError, MalformedRequest, Exception):
        app.add_exception_handler(kind, _answer)
    app.add_exception_handler(RequestValidationError, _unknown)
    app.add_exception_handler(HTTPException, _http)
    app.add_middleware(SecurityHeaders)
    if unguarded := unguarded_routes(app):
        raise StartupError(f"routes without a guard: {', '.join(unguarded)}")
    return app


async def _answer(_request: Request, error: Exception) -> Response:
    return error_answer(error)


async def _unknown(_request: Request, _error: Exception) -> Response:
    """A path's parameter that can't be one: nothing else is read by FastAPI."""
    return error_answer(UnknownUrl())


async def _http(_request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException) or error.status_code != 405:
        return error_answer(UnknownUrl())
    response = error_answer(MethodNotAllowed())
    response.headers.update(error.headers or {})
    return response
