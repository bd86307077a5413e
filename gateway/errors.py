"""What can go wrong with a request, and the one table that says what a client then sees.

GatewayError
├── MalformedHttp             the request line, a header or the framing is wrong
│   ├── TooManyHeaders
│   └── HeadTooSlow
├── InvalidRequest            a field is wrong; `param` names it
│   ├── UnsupportedParameter
│   ├── InvalidIdempotencyKey
│   └── ContextLengthExceeded
├── NotAuthenticated          no usable key was sent
├── AmbiguousCredentials      more than one was
├── ScopeMissing              the key is good, and not for this
├── TooManyConnections        from one address, on which nobody has shown a key
├── UnknownUrl, MethodNotAllowed
├── ExportsBusy               as many tables are being made as may be at a time
├── ModelNotFound
├── ModelUnavailable          the model is known, but nobody serves it now
├── BrokerDown                known from a local flag, before anything was tried
├── Overloaded                so is this; `reason` says by what, `retry_after` for how long
└── GenerationError           the job was opened, and did not finish
    ├── JobFailed             the worker says so; `failure` says why
    ├── JobCancelled          somebody else cancelled it
    ├── DeadlinePassed
    ├── WorkerLost            the worker went, and no other one can go on where it stopped
    ├── NotQueued             its turn had come, and the broker did not take it
    ├── UpstreamUnreachable   the broker went meanwhile
    ├── RepliesLost           a gap in the tokens
    ├── SlowClient            the client does not read
    ├── ClientDisconnected    the client has gone
    └── ServerShutdown

The message of a `GatewayError` is for the client and holds no internals. Errors of other packages get the message that
the table gives them. This module knows neither FastAPI nor requests.
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
from auth_billing.money.amounts import usd
from router.errors import BrokerUnavailable, PublishError, PublishUnknown, QueueFull, Unroutable
from router.messages import Failed, FailureCode
from runtime.strict_json import BodyBrokenOff, BodyTooLarge, BodyTooSlow, MalformedRequest, UnsupportedMediaType

LONGEST_RETRY_AFTER = 60
"""Seconds; OpenAI's clients do not wait for more than two minutes, whatever an upstream says."""


class GatewayError(Exception):
    """Base of what the gateway itself finds wrong."""

    message = "The request could not be handled."

    def __init__(self, message: str | None = None, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message or self.message)
        self.param = param
        self.code = code
        """Overrides the table's code."""


class MalformedHttp(GatewayError):
    """The request line, a header or the framing is wrong; the connection is closed."""

    message = "The request is not valid HTTP."


class TooManyHeaders(MalformedHttp):
    """More headers than any client of ours needs."""


class HeadTooSlow(MalformedHttp):
    """The request line and the headers did not arrive in time."""

    message = "The request's headers did not arrive in time."


class InvalidRequest(GatewayError):
    """A field is missing, or has the wrong type or value; `param` names it."""


class UnsupportedParameter(InvalidRequest):
    """A field that the specification knows and we do not offer."""


class InvalidIdempotencyKey(InvalidRequest):
    """The header is there, and its value can't be a key."""


class ContextLengthExceeded(InvalidRequest):
    """The prompt can't fit into the model's context."""


class NotAuthenticated(GatewayError):
    """No usable key was sent."""

    message = (
        "You didn't provide an API key. Provide it in an Authorization header using Bearer auth "
        "(Authorization: Bearer YOUR_KEY)."
    )


class AmbiguousCredentials(GatewayError):
    """More than one credential was sent."""

    message = "The request carries more than one API key."


class ScopeMissing(GatewayError):
    """The key is good, and was not given the right to this."""


class TooManyConnections(GatewayError):
    """From this address come too many connections without a key."""

    message = "There are too many connections without an API key from your address."


class UnknownUrl(GatewayError):
    """No such route."""


class MethodNotAllowed(GatewayError):
    """The route exists, with another method."""


class ExportsBusy(GatewayError):
    """As many tables are being made as may be at a time."""

    message = "Other exports are under way. Please try again in a moment."


class ModelNotFound(GatewayError):
    """No worker has served this model within memory, or this caller may not ask for it."""


class ModelUnavailable(GatewayError):
    """The model is known, but nobody serves it now."""

    message = "No worker is serving this model at the moment. Please try again later."


class BrokerDown(GatewayError):
    """There is no broker to queue the job at; known from a local flag."""

    message = "The service is temporarily unavailable. Please try again later."


class Overloaded(GatewayError):
    """More work than can be begun in time; nothing was held or queued for it."""

    message = "The service is overloaded. Please try again later."

    def __init__(self, reason: str, wait: float) -> None:
        """`reason` is a word for metrics; `wait`: seconds after which it may be otherwise, at most infinite."""
        super().__init__()
        self.reason = reason
        self.retry_after = max(1, math.ceil(min(wait, LONGEST_RETRY_AFTER)))


class GenerationError(GatewayError):
    """The job was opened, and did not finish."""


class JobFailed(GenerationError):
    """The worker says that the job failed."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message, param=failed.param)
        self.failure = failed.code
        self.retry_after = failed.retry_after


class JobCancelled(GenerationError):
    """Somebody else cancelled the job."""

    message = "The request was cancelled."


class DeadlinePassed(GenerationError):
    """The request took longer than it may."""

    message = "The request was not finished before its deadline."


class WorkerLost(GenerationError):
    """The worker went, and no other one can go on where it stopped."""

    message = "The worker that was generating the answer was lost."


class NotQueued(GenerationError):
    """It had waited for its tenant's turn, and then the broker did not take it: nothing of it was begun."""

    message = BrokerDown.message


class UpstreamUnreachable(GenerationError):
    """The broker went while the request was running."""

    message = "The connection to the workers was lost."


class RepliesLost(GenerationError):
    """A part of the answer was lost on its way."""

    message = "A part of the answer was lost. Please try again."


class SlowClient(GenerationError):
    """The client does not read what it asked for."""

    message = "The client reads too slowly."


class ClientDisconnected(GenerationError):
    """The client has gone; nobody sees this one."""

    message = "The client closed the connection."


class ServerShutdown(GenerationError):
    """The gateway is stopping, and its patience is over."""

    message = "The server is shutting down. Please try again."


@dataclass(frozen=True)
class Answer:
    """What a client sees of an error. `message`: for errors that bring none that is fit for clients."""

    status: int
    type: str
    code: str | None
    retry_after: int | None = None
    retry_until: int | None = None
    """Drawn at random up to this: those who were refused together do not come again together."""
    should_retry: bool | None = None
    message: str | Callable[[Any], str] | None = None

    def message_of(self, error: Exception) -> str:
        """What is said of `error`."""
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


def _of_credit(error: InsufficientCredit) -> str:
    return (
        f"You exceeded your current quota: this request may cost up to {usd(error.needed)} USD; "
        f"{usd(error.available)} USD of credit are left. A smaller max_tokens needs less."
    )


def _of_budget(error: BudgetExhausted) -> str:
    kind = error.budget.partition(":")[0]
    whose = {"key": "this API key", "project": "this project"}.get(kind, "this organization")
    return (
        f"You exceeded your current quota: this request may cost up to {usd(error.needed)} USD; "
        f"{usd(max(0, error.left))} USD of the monthly budget of {whose} are left. A smaller max_tokens needs less."
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
    InsufficientCredit: Answer(429, _QUOTA, "insufficient_quota", should_retry=False, message=_of_credit),
    BudgetExhausted: Answer(429, _QUOTA, "insufficient_quota", should_retry=False, message=_of_budget),
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
    """The table's row for an error: by failure code if it has one, else by its class or the nearest base."""
    if isinstance(error, JobFailed):
        return TABLE[error.failure]
    return next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)


def error_body(error: Exception) -> dict[str, Any]:
    """OpenAI's error body: all four keys, always."""
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
    """The headers that tell a client whether and when to try again."""
    answer = answer_to(error)
    headers: dict[str, str] = {}
    if answer.status == 401:
        headers["www-authenticate"] = "Bearer"
    if answer.status == 429 and answer.should_retry is None and isinstance(error, RateLimitExceeded):
        headers |= _wait(error.wait)
    retry_after = getattr(error, "retry_after", None) or answer.retry_after
    if retry_after is not None and answer.retry_until is not None:
        retry_after = random.randint(retry_after, answer.retry_until)  # noqa: S311 - no secret
    if retry_after is not None:
        headers["retry-after"] = str(min(retry_after, LONGEST_RETRY_AFTER))
    if answer.should_retry is not None:
        headers["x-should-retry"] = "true" if answer.should_retry else "false"
    return headers


def _wait(seconds: float) -> dict[str, str]:
    """When to try again: in whole seconds for everybody, to the millisecond for OpenAI's clients."""
    milliseconds = min(max(1, math.ceil(seconds * 1000)), LONGEST_RETRY_AFTER * 1000)
    return {"retry-after": str(-(-milliseconds // 1000)), "retry-after-ms": str(milliseconds)}
