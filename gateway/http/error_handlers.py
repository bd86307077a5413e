"""Exception handlers of the gateway's application: every exception is answered by the error body of the route's API.

Status and body of each error are in the error table; only Starlette's and FastAPI's own errors are translated here.
"""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from auth_billing.errors import AccountError
from gateway.errors import (
    GatewayError,
    InvalidRequest,
    MethodNotAllowed,
    Overloaded,
    UnknownUrl,
)
from gateway.http.dialect import OPENAI, Dialect, dialect_of
from gateway.http.gateway import gateway_of
from gateway.http.http_errors import error_headers
from router.errors import PublishError
from router.producer.errors import GenerationError
from runtime.strict_json import MalformedRequest
from stored_objects.errors import StoredObjectError


def install(app: FastAPI) -> None:
    """Register exception handlers in `app` that answer every exception of a route with its dialect's error body."""
    app.add_exception_handler(Overloaded, _overloaded)
    for kind in (GatewayError, GenerationError, MalformedRequest, PublishError, AccountError, StoredObjectError):
        app.add_exception_handler(kind, _answer)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


def error_response(error: Exception, dialect: Dialect = OPENAI) -> JSONResponse:
    """Build the HTTP response to an exception in `dialect`: status, headers and body, from the error table."""
    return JSONResponse(dialect.error_body(error), dialect.error_status(error), error_headers(error))


async def _overloaded(request: Request, error: Exception) -> JSONResponse:
    gateway_of(request).metrics.overloaded.labels(getattr(error, "reason", "")).inc()
    return await _answer(request, error)


async def _answer(request: Request, error: Exception) -> JSONResponse:
    return error_response(error, dialect_of(request.scope))


async def _invalid(request: Request, _error: Exception) -> JSONResponse:
    return await _answer(request, InvalidRequest("The request is not valid."))


async def _http(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        return await _answer(request, error)
    method, path = request.method[:32], request.scope["path"][:200]  # not `request.url`, which has the Host header
    if error.status_code == 404:
        return error_response(UnknownUrl(f"Invalid URL ({method} {path})"))
    if error.status_code == 405:
        response = await _answer(request, MethodNotAllowed(f"Not allowed to {method} on {path}."))
        response.headers.update(error.headers or {})
        return response
    response = await _invalid(request, error)
    response.status_code = error.status_code
    return response
