"""Exceptions by which the gateway refuses or ends requests; `http/http_errors.py` translates them to HTTP responses.

GatewayError
├── MalformedHttp: TooManyHeaders, HeadersTimeout
├── InvalidRequest: UnsupportedParameter, InvalidIdempotencyKey, ContextLengthExceeded, PromptBlocked
├── NotAuthenticated, AmbiguousCredentials, ScopeMissing, TooManyConnections
├── UnknownUrl, MethodNotAllowed, ExportsBusy, ModelNotFound, ModelNotDeletable
└── BrokerDown, Overloaded    checked locally, before a job is published

GenerationError (`router/producer/errors.py`)    an opened generation did not finish
└── RequestTooLarge, ClientDisconnected, ServerShutdown, ModerationUnavailable

The messages of both are sent to the client and must not reveal internals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from router.producer.errors import GenerationError

MAX_RETRY_AFTER = 60
"""Largest `Retry-After` in seconds; OpenAI's clients ignore values above two minutes."""


class GatewayError(Exception):
    """Base of the errors that the gateway raises; the message is sent to the client."""

    message = "The request could not be handled."

    def __init__(self, message: str | None = None, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message or self.message)
        self.param = param
        self.code = code
        """OpenAI error code; `None`: the table's code."""


class MalformedHttp(GatewayError):
    """Raised for an invalid request line, header or framing; the connection is closed."""

    message = "The request is not valid HTTP."


class TooManyHeaders(MalformedHttp):
    """Raised for a request with more than the maximum number of headers."""


class HeadersTimeout(MalformedHttp):
    """Raised when the request line and the headers did not arrive in time."""

    message = "The request's headers did not arrive in time."


class InvalidRequest(GatewayError):
    """Raised for a field that is missing or has an invalid type or value; `param` names it."""


class UnsupportedParameter(InvalidRequest):
    """Raised for a field of OpenAI's specification that is not supported here."""


class InvalidIdempotencyKey(InvalidRequest):
    """Raised for an `Idempotency-Key` header that is repeated, empty, too long or not printable ASCII."""


class ContextLengthExceeded(InvalidRequest):
    """Raised for a prompt that does not fit into the model's context."""


class PromptBlocked(InvalidRequest):
    """Raised for a prompt in which the project's moderation has found a category that blocks."""

    def __init__(self, categories: Sequence[str]) -> None:
        """`categories` are the names of those that were found."""
        super().__init__(f"Your request was rejected by the moderation of this project: {', '.join(categories)}.")
        self.categories = categories


class NotAuthenticated(GatewayError):
    """Raised for a request without an API key in a bearer token."""

    message = (
        "You didn't provide an API key. Provide it in an Authorization header using Bearer auth "
        "(Authorization: Bearer YOUR_KEY)."
    )


class AmbiguousCredentials(GatewayError):
    """Raised for a request with more than one API key."""

    message = "The request carries more than one API key."


class ScopeMissing(GatewayError):
    """Raised for a valid API key that lacks a scope that the request requires."""

    def __init__(self, scope: str) -> None:
        super().__init__(f"You have insufficient permissions for this operation. Missing scopes: {scope}.")


class TooManyConnections(GatewayError):
    """Raised for a connection from an address with too many unauthenticated connections."""

    message = "There are too many connections without an API key from your address."


class UnknownUrl(GatewayError):
    """Raised for a path without a route."""


class MethodNotAllowed(GatewayError):
    """Raised for a path that has a route, but not for the request's HTTP method."""


class ExportsBusy(GatewayError):
    """Raised while the maximum number of concurrent exports is running."""

    message = "Other exports are under way. Please try again in a moment."


class ModelNotFound(GatewayError):
    """Raised for a model that no worker has served recently, or that the caller may not use."""


class ModelNotDeletable(GatewayError):
    """Raised for the deletion of a model that is not the project's own."""

    message = "This model is served by the platform and can't be deleted by an API key."


class BrokerDown(GatewayError):
    """Raised while the connection to the broker is down, before a job is published."""

    message = "The service is temporarily unavailable. Please try again later."


class Overloaded(GatewayError):
    """Raised to shed load before any credit is held or job is queued."""

    message = "The service is overloaded. Please try again later."

    def __init__(self, reason: str, wait: float) -> None:
        """`reason` is the metric's label; `wait` the expected seconds until requests are accepted, maybe infinite."""
        super().__init__()
        self.reason = reason
        self.retry_after = max(1, math.ceil(min(wait, MAX_RETRY_AFTER)))


class RequestTooLarge(GenerationError):
    """Raised for a request whose job is larger than the broker accepts; nothing was sent."""

    message = (
        "The request is too large together with its files, images and stored context: send fewer or smaller files and "
        "images, or a shorter conversation."
    )


class ClientDisconnected(GenerationError):
    """Raised when the client has disconnected, so this error reaches no client."""

    message = "The client closed the connection."


class ServerShutdown(GenerationError):
    """Raised in requests that still run when the gateway's shutdown grace period ends."""

    message = "The server is shutting down. Please try again."


class ModerationUnavailable(GenerationError):
    """Raised when the moderation of a project's prompts and answers fails: nothing is sent unchecked."""

    message = "The moderation of this project's requests is not available at the moment. Please try again later."
