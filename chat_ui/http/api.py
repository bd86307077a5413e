"""Builds the chat API below `/api` as a FastAPI application, which the gateway process mounts beside the chat page.

Errors have one JSON shape, and never repeat what the client sent.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from auth_billing.errors import AccountError
from chat_ui.errors import ChatError, InvalidField, MethodNotAllowed, UnknownUrl
from chat_ui.http.access_control import unguarded_routes
from chat_ui.http.page import SecurityHeaders
from chat_ui.http.responses import error_response
from chat_ui.http.routes import (
    account,
    admin,
    batches,
    collection_readers,
    collections,
    conversations,
    events,
    export_import,
    images,
    oidc,
    password_reset,
    people,
    presets,
    second_factor,
    session,
    usage,
)
from chat_ui.http.schemas.base import ErrorBody
from chat_ui.services import ChatServices
from runtime.lifecycle import StartupError
from runtime.strict_json import MalformedRequest

PREFIX = "/api"

_ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "The request is invalid or not permitted"},
    "5XX": {"model": ErrorBody, "description": "The server failed or is busy"},
}


def create_api(services: ChatServices) -> FastAPI:
    """Build the chat API as a FastAPI application with routes and error handlers; paths begin with `PREFIX`.

    Raises:
        StartupError: a route has no guard.
    """
    app = app_with_routes()
    app.state.services = services
    for kind in (ChatError, AccountError, MalformedRequest, Exception):
        app.add_exception_handler(kind, _handle_known_error)
    app.add_exception_handler(RequestValidationError, _handle_invalid_parameter)
    app.add_exception_handler(HTTPException, _handle_http_error)
    app.add_middleware(SecurityHeaders)
    if unguarded := unguarded_routes(app):
        raise StartupError(f"routes without a guard: {', '.join(unguarded)}")
    return app


def app_with_routes() -> FastAPI:
    """Return the chat API's routes as an application without services and error handlers, for its OpenAPI document."""
    app = FastAPI(title="Headrace chat", redirect_slashes=False, docs_url=None, redoc_url=None, openapi_url=None)
    parts = (
        session,
        oidc,
        second_factor,
        password_reset,
        account,
        people,
        conversations,
        events,
        presets,
        export_import,
        images,
        usage,
        batches,
        collections,
        collection_readers,
        admin,
    )
    for routes in parts:
        app.include_router(routes.router, prefix=PREFIX, responses=_ERRORS)
    return app


async def _handle_known_error(_request: Request, error: Exception) -> Response:
    return error_response(error)


async def _handle_invalid_parameter(_request: Request, error: Exception) -> Response:
    """Answer an invalid path or query parameter. Request bodies are read in `request_bodies.py`, not by FastAPI."""
    errors = error.errors() if isinstance(error, RequestValidationError) else ()
    for first in errors:
        if first["loc"][0] == "query":
            return error_response(InvalidField(str(first["loc"][-1]), f"{first['msg']}."))
    return error_response(UnknownUrl())


async def _handle_http_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException) or error.status_code != 405:
        return error_response(UnknownUrl())
    response = error_response(MethodNotAllowed())
    response.headers.update(error.headers or {})
    return response
