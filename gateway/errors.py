"""The gateway's exceptions; `http/http_errors.py` translates them to HTTP responses.

GatewayError
├── MalformedHttp: TooManyHeaders, HeadersTimeout
├── InvalidRequest: UnsupportedParameter, InvalidIdempotencyKey, ContextLengthExceeded
├── NotAuthenticated, AmbiguousCredentials, ScopeMissing, TooManyConnections
├── UnknownUrl, MethodNotAllowed, ExportsBusy, ModelNotFound, ModelUnavailable
├── BrokerDown, Overloaded    checked locally, before a job is published
└── GenerationError           an opened generation did not finish
    ├── JobFailed, JobCancelled, DeadlinePassed, NotQueued
    ├── WorkerLost (NotContinuable), UpstreamUnreachable, RepliesLost
    └── SlowClient, ClientDisconnected, ServerShutdown

A `GatewayError`'s message is sent to the client and must not reveal internals.
"""

from __future__ import annotations

import math

from router.messages import Failed

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
    """Raised for a valid API key that lacks the scope that the route requires."""


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


class ModelUnavailable(GatewayError):
    """Raised for a known model without a live worker."""

    message = "No worker is serving this model at the moment. Please try again later."


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


class GenerationError(GatewayError):
    """Base of the errors that end a generation after its jobs were opened."""


class JobFailed(GenerationError):
    """Raised when the terminal reply to a job says that it failed, with the reply's failure code."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message, param=failed.param)
        self.failure = failed.code
        self.retry_after = failed.retry_after


class JobCancelled(GenerationError):
    """Raised when a job was cancelled, but not by this gateway."""

    message = "The request was cancelled."


class DeadlinePassed(GenerationError):
    """Raised when a request did not finish before its deadline."""

    message = "The request was not finished before its deadline."


class WorkerLost(GenerationError):
    """Raised when the worker died and no other worker can resume the job."""

    message = "The worker that was generating the answer was lost."


class NotContinuable(WorkerLost):
    """Raised when the provider that was answering was lost, after output that no other worker can continue."""

    message = (
        "The provider that was generating the answer was lost, and what it has sent (reasoning, tool calls, or a very "
        "long text) can't be continued by another one."
    )


class NotQueued(GenerationError):
    """Raised when a job that had waited for a free slot was refused by the broker; no worker has begun it."""

    message = BrokerDown.message


class UpstreamUnreachable(GenerationError):
    """Raised when the connection to the broker is lost while a request is running."""

    message = "The connection to the workers was lost."


class RepliesLost(GenerationError):
    """Raised when replies are missing, so that the answer has a gap."""

    message = "A part of the answer was lost. Please try again."


class SlowClient(GenerationError):
    """Raised when a client reads its response too slowly, so that unread output exceeds a limit or a send times out."""

    message = "The client reads too slowly."


class ClientDisconnected(GenerationError):
    """Raised when the client has disconnected, so this error reaches no client."""

    message = "The client closed the connection."


class ServerShutdown(GenerationError):
    """Raised in requests that still run when the gateway's shutdown grace period ends."""

    message = "The server is shutting down. Please try again."
