"""The gateway's exceptions, and the table that translates every exception to an HTTP response.

GatewayError
├── MalformedHttp             invalid request line, header or framing
│   ├── TooManyHeaders
│   └── HeadTooSlow
├── InvalidRequest            invalid field; `param` names it
│   ├── UnsupportedParameter
│   ├── InvalidIdempotencyKey
│   └── ContextLengthExceeded
├── NotAuthenticated          no usable API key
├── AmbiguousCredentials      more than one API key
├── ScopeMissing              valid key without the required scope
├── TooManyConnections        too many unauthenticated connections from one address
├── UnknownUrl, MethodNotAllowed
├── ExportsBusy               maximum number of concurrent exports reached
├── ModelNotFound
├── ModelUnavailable          known model without a live worker
├── BrokerDown                no connection to the broker (checked locally, before publishing)
├── Overloaded                load shed (checked locally); `reason` names the limit
└── GenerationError           an opened generation did not finish
    ├── JobFailed             a worker reported a failure; `failure` is its code
    ├── JobCancelled          cancelled, but not by this gateway
    ├── DeadlinePassed
    ├── WorkerLost            the worker died and no other worker can resume the job
    ├── NotQueued             the broker refused the job when its slot became free
    ├── UpstreamUnreachable   connection to the broker lost
    ├── RepliesLost           gap in the tokens
    ├── SlowClient            the client does not read
    ├── ClientDisconnected
    └── ServerShutdown

A `GatewayError`'s message is sent to the client and must not reveal internals. For errors of other packages the table
provides the message.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from auth_billing.errors import (
    AccountClosed,
    AccountError,
    AnswerNotKept,
    BudgetExhausted,
    CreditError,
    InsufficientCredit,
    InvalidApiKey,
    KeyInUse,
    KeyReused,
    LargerThanLimit,
    LastOwner,
    NoPrice,
    NoSuchRecord,
    NotPermitted,
    PeopleError,
    RateLimitExceeded,
    StoreUnavailable,
    TokenLimitExceeded,
)
from auth_billing.money.amounts import format_usd
from router.errors import BrokerUnavailable, PublishError, PublishUnknown, QueueFull, Unroutable
from router.messages import Failed, FailureCode
from runtime.strict_json import BodyBrokenOff, BodyTooLarge, BodyTooSlow, MalformedRequest, UnsupportedMediaType

LONGEST_RETRY_AFTER = 60
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


class HeadTooSlow(MalformedHttp):
    """Raised when the request line and the headers did not arrive in time."""

    message = "The request's headers did not arrive in time."


class InvalidRequest(GatewayError):
    """Raised for a field that is missing or has an invalid type or value; `param` names it."""


class UnsupportedParameter(InvalidRequest):
    """Raised for a field of OpenAI's specification that is not supported here."""


class InvalidIdempotencyKey(InvalidRequest):
    """Raised for an `Idempotency-Key` header without a valid key."""


class ContextLengthExceeded(InvalidRequest):
    """Raised for a prompt that does not fit into the model's context."""


class NotAuthenticated(GatewayError):
    """Raised for a request without a usable API key."""

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
    """Raised for a route that exists with another method."""


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
        self.retry_after = max(1, math.ceil(min(wait, LONGEST_RETRY_AFTER)))


class GenerationError(GatewayError):
    """Base of the errors that end an opened generation."""


class JobFailed(GenerationError):
    """Raised when a worker reports that the job failed."""

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
    """Raised when a client does not read its response."""

    message = "The client reads too slowly."


class ClientDisconnected(GenerationError):
    """Raised when the client has disconnected, so this error reaches no client."""

    message = "The client closed the connection."


class ServerShutdown(GenerationError):
    """Raised for requests that still run when the gateway's shutdown grace period ends."""

    message = "The server is shutting down. Please try again."


@dataclass(frozen=True)
class Answer:
    """The HTTP response to an error. `message` replaces the exception's own where that is not meant for clients."""

    status: int
    type: str
    code: str | None
    retry_after: int | None = None
    retry_until: int | None = None
    """Upper bound of a random `Retry-After`, which spreads the retries of clients that were refused together."""
    should_retry: bool | None = None
    message: str | Callable[[Any], str] | None = None

    def message_of(self, error: Exception) -> str:
        """Return the message that the client gets for `error`."""
        if self.message is None:
            return str(error)
        return self.message if isinstance(self.message, str) else self.message(error)


_REQUEST = "invalid_request_error"
_SERVER = "server_error"
_QUOTA = "insufficient_quota"
_BUSY = "The service is overloaded. Please try again later."
_REUSED = "This Idempotency-Key was used with another request body. Use a new key for a new request."
_IN_USE = "A request with this Idempotency-Key is still running. Please try again later."
_NOT_PERMITTED = "Your role in the organization does not allow this."
_NOT_KEPT = (
    "The request with this Idempotency-Key was answered, but the answer was too large to be kept for repetition."
)
_NO_PRICE = "This model can't be used yet: its operator has not said what it costs."
_CLOSED = "Your account is not active: new requests are not taken."
_INTERNAL = "The server had an error while processing your request."


def _credit_message(error: InsufficientCredit) -> str:
    return (
        f"You exceeded your current quota: this request may cost up to {format_usd(error.needed)} USD; "
        f"{format_usd(error.available)} USD of credit are left. A smaller max_tokens needs less."
    )


def _budget_message(error: BudgetExhausted) -> str:
    kind = error.budget.partition(":")[0]
    owner = {"key": "this API key", "project": "this project"}.get(kind, "this organization")
    return (
        f"You exceeded your current quota: this request may cost up to {format_usd(error.needed)} USD; "
        f"{format_usd(max(0, error.left))} USD of the monthly budget of {owner} are left. "
        "A smaller max_tokens needs less."
    )


TABLE: Mapping[type[Exception] | FailureCode, Answer] = {
    MalformedHttp: Answer(400, _REQUEST, "malformed_http"),
    TooManyHeaders: Answer(431, _REQUEST, "too_many_headers"),
    HeadTooSlow: Answer(408, _REQUEST, "request_timeout"),
    MalformedRequest: Answer(400, _REQUEST, "invalid_json"),
    BodyTooLarge: Answer(413, _REQUEST, "request_too_large"),
    BodyTooSlow: Answer(408, _REQUEST, "request_timeout"),
    BodyBrokenOff: Answer(499, _REQUEST, "client_disconnected"),
    UnsupportedMediaType: Answer(415, _REQUEST, "unsupported_media_type"),
    InvalidRequest: Answer(400, _REQUEST, "invalid_value"),
    UnsupportedParameter: Answer(400, _REQUEST, "unsupported_parameter"),
    InvalidIdempotencyKey: Answer(400, _REQUEST, "invalid_idempotency_key"),
    ContextLengthExceeded: Answer(400, _REQUEST, "context_length_exceeded"),
    NotAuthenticated: Answer(401, _REQUEST, "invalid_api_key"),
    AmbiguousCredentials: Answer(400, _REQUEST, "ambiguous_credentials"),
    ScopeMissing: Answer(403, _REQUEST, "missing_scope"),
    InvalidApiKey: Answer(401, _REQUEST, "invalid_api_key", message="Incorrect API key provided."),
    AccountError: Answer(503, _SERVER, "billing_unavailable", retry_after=5, message=_BUSY),
    StoreUnavailable: Answer(503, _SERVER, "billing_unavailable", retry_after=5, message=_BUSY),
    PeopleError: Answer(400, _REQUEST, "invalid_value"),
    NotPermitted: Answer(403, _REQUEST, "insufficient_permissions", message=_NOT_PERMITTED),
    NoSuchRecord: Answer(404, _REQUEST, "not_found", message="There is no such object in this organization."),
    LastOwner: Answer(400, _REQUEST, "last_owner", message="An organization always has an owner."),
    RateLimitExceeded: Answer(429, "requests", "rate_limit_exceeded"),
    TokenLimitExceeded: Answer(429, "tokens", "rate_limit_exceeded"),
    LargerThanLimit: Answer(429, "tokens", "rate_limit_exceeded", should_retry=False),
    InsufficientCredit: Answer(429, _QUOTA, "insufficient_quota", should_retry=False, message=_credit_message),
    BudgetExhausted: Answer(429, _QUOTA, "insufficient_quota", should_retry=False, message=_budget_message),
    AccountClosed: Answer(429, _QUOTA, "billing_not_active", should_retry=False, message=_CLOSED),
    CreditError: Answer(400, _REQUEST, "invalid_value"),
    NoPrice: Answer(503, _SERVER, "model_unavailable", should_retry=False, message=_NO_PRICE),
    KeyReused: Answer(400, _REQUEST, "idempotency_key_reused", message=_REUSED),
    KeyInUse: Answer(409, _REQUEST, "idempotency_key_in_use", retry_after=2, message=_IN_USE),
    AnswerNotKept: Answer(409, _REQUEST, "idempotent_answer_not_kept", should_retry=False, message=_NOT_KEPT),
    TooManyConnections: Answer(429, "requests", "rate_limit_exceeded", retry_after=10),
    UnknownUrl: Answer(404, _REQUEST, "unknown_url"),
    MethodNotAllowed: Answer(405, _REQUEST, "method_not_allowed"),
    ExportsBusy: Answer(503, _SERVER, "exports_busy", retry_after=5),
    ModelNotFound: Answer(404, _REQUEST, "model_not_found"),
    ModelUnavailable: Answer(503, _SERVER, "model_unavailable", retry_after=10),
    Overloaded: Answer(503, _SERVER, "overloaded", retry_after=5),
    BrokerDown: Answer(503, _SERVER, "service_unavailable", retry_after=5),
    Unroutable: Answer(503, _SERVER, "model_unavailable", retry_after=10, message=ModelUnavailable.message),
    QueueFull: Answer(503, _SERVER, "overloaded", retry_after=2, retry_until=5, message=_BUSY),
    BrokerUnavailable: Answer(503, _SERVER, "service_unavailable", retry_after=5, message=BrokerDown.message),
    PublishUnknown: Answer(503, _SERVER, "service_unavailable", retry_after=5, message=BrokerDown.message),
    PublishError: Answer(503, _SERVER, "service_unavailable", retry_after=5, message=BrokerDown.message),
    FailureCode.CONTEXT_LENGTH_EXCEEDED: Answer(400, _REQUEST, "context_length_exceeded"),
    FailureCode.INVALID_PROMPT: Answer(400, _REQUEST, "invalid_prompt"),
    FailureCode.INVALID_PARAMETER: Answer(400, _REQUEST, "invalid_value"),
    FailureCode.DEADLINE_EXCEEDED: Answer(408, _SERVER, "deadline_exceeded"),
    FailureCode.ENGINE_ERROR: Answer(500, _SERVER, "engine_error"),
    FailureCode.WORKER_LOST: Answer(503, _SERVER, "worker_lost", retry_after=1),
    FailureCode.WORKER_SHUTDOWN: Answer(503, _SERVER, "worker_shutdown", retry_after=1),
    FailureCode.FAILED_REPEATEDLY: Answer(500, _SERVER, "job_failed_repeatedly", should_retry=False),
    FailureCode.UNDECODABLE: Answer(500, _SERVER, "undecodable_job", should_retry=False),
    FailureCode.UPSTREAM_ERROR: Answer(502, _SERVER, "upstream_error"),
    FailureCode.UPSTREAM_TIMEOUT: Answer(504, _SERVER, "upstream_error"),
    FailureCode.UPSTREAM_BUSY: Answer(503, _SERVER, "overloaded", retry_after=5),
    JobCancelled: Answer(503, _SERVER, "cancelled", should_retry=False),
    DeadlinePassed: Answer(408, _SERVER, "deadline_exceeded"),
    WorkerLost: Answer(503, _SERVER, "worker_lost", retry_after=1),
    NotQueued: Answer(503, _SERVER, "service_unavailable", retry_after=5),
    UpstreamUnreachable: Answer(503, _SERVER, "upstream_unreachable", retry_after=5),
    RepliesLost: Answer(503, _SERVER, "replies_lost", retry_after=1),
    SlowClient: Answer(408, _REQUEST, "client_too_slow"),
    ClientDisconnected: Answer(499, _REQUEST, "client_disconnected"),
    ServerShutdown: Answer(503, _SERVER, "server_shutdown", retry_after=5),
    Exception: Answer(500, _SERVER, None, message=_INTERNAL),
}


def answer_to(error: Exception) -> Answer:
    """Return the table's row for an error: by failure code if it has one, else by its class or the nearest base."""
    if isinstance(error, JobFailed):
        return TABLE[error.failure]
    return next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)


def error_body(error: Exception) -> dict[str, Any]:
    """Return OpenAI's error body; all four keys are always present."""
    answer = answer_to(error)
    return {
        "error": {
            "message": answer.message_of(error),
            "type": answer.type,
            "param": getattr(error, "param", None),
            "code": getattr(error, "code", None) or answer.code,
        }
    }


def error_headers(error: Exception) -> dict[str, str]:
    """Return the response headers of an error: authentication challenge and retry hints."""
    answer = answer_to(error)
    headers: dict[str, str] = {}
    if answer.status == 401:
        headers["www-authenticate"] = "Bearer"
    if answer.status == 429 and answer.should_retry is None and isinstance(error, RateLimitExceeded):
        headers |= _retry_headers(error.wait)
    retry_after = getattr(error, "retry_after", None) or answer.retry_after
    if retry_after is not None and answer.retry_until is not None:
        retry_after = random.randint(retry_after, answer.retry_until)  # noqa: S311 - no secret
    if retry_after is not None:
        headers["retry-after"] = str(min(retry_after, LONGEST_RETRY_AFTER))
    if answer.should_retry is not None:
        headers["x-should-retry"] = "true" if answer.should_retry else "false"
    return headers


def _retry_headers(seconds: float) -> dict[str, str]:
    """Return `Retry-After` in whole seconds, and in milliseconds for OpenAI's clients."""
    milliseconds = min(max(1, math.ceil(seconds * 1000)), LONGEST_RETRY_AFTER * 1000)
    return {"retry-after": str(-(-milliseconds // 1000)), "retry-after-ms": str(milliseconds)}
