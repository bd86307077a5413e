"""Translates exceptions to HTTP responses of the gateway, by one table for the errors of all packages.

Errors of other packages get the table's message, because theirs is not meant for clients.
"""

from __future__ import annotations

import math
import secrets
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
    PriceConflict,
    RateLimitExceeded,
    StoreUnavailable,
    TokenLimitExceeded,
)
from auth_billing.money.amounts import format_usd
from gateway import errors
from router.errors import BrokerUnavailable, PublishError, PublishUnknown, QueueFull, Unroutable
from router.messages import FailureCode
from router.producer.errors import (
    DeadlinePassed,
    JobCancelled,
    JobFailed,
    ModelUnavailable,
    NotQueued,
    RepliesLost,
    SlowClient,
    UpstreamUnreachable,
    WorkerLost,
)
from runtime.strict_json import BodyTimeout, BodyTooLarge, IncompleteBody, MalformedRequest, UnsupportedMediaType
from stored_objects.errors import (
    AddressExpired,
    AddressForged,
    BlobNotFound,
    BlobsUnavailable,
    BlobTooLarge,
    ContextTooLarge,
    DocumentNotFound,
    StorageQuotaExceeded,
    StoredObjectError,
    UnacceptableUpload,
)
from stored_objects.vector_stores.searches import IndexNotReady


@dataclass(frozen=True)
class HttpError:
    """A row of the error table: how an error is answered. `message` replaces exception text not meant for clients."""

    status: int
    type: str
    code: str | None
    retry_after: int | None = None
    retry_until: int | None = None
    """Upper bound of a random `Retry-After`, which spreads the retries of clients that were refused together."""
    should_retry: bool | None = None
    message: str | Callable[[Any], str] | None = None

    def message_of(self, error: Exception) -> str:
        """Return the message that the client gets for `error`: that of this row, or if it has none the error's."""
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
_NO_PRICE = "A model of this request can't be used yet: its operator has not said what it costs."
_CLOSED = "Your account is not active: new requests are not taken."
_TOO_MUCH_STORED = "You, your project or your organization store as much as is allowed. Please delete something."
_NO_FILE = "There is no such file, or it has expired."
_NO_INDEX = "The vector store's index is being built. Please try again in a few seconds."
_FORGED = "The address of this file is not valid. Use it as you got it."
_EXPIRED = "The address of this file has expired."
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


HTTP_ERRORS: Mapping[type[Exception] | FailureCode, HttpError] = {
    errors.MalformedHttp: HttpError(400, _REQUEST, "malformed_http"),
    errors.TooManyHeaders: HttpError(431, _REQUEST, "too_many_headers"),
    errors.HeadersTimeout: HttpError(408, _REQUEST, "request_timeout"),
    MalformedRequest: HttpError(400, _REQUEST, "invalid_json"),
    BodyTooLarge: HttpError(413, _REQUEST, "request_too_large"),
    errors.RequestTooLarge: HttpError(413, _REQUEST, "request_too_large"),
    BodyTimeout: HttpError(408, _REQUEST, "request_timeout"),
    IncompleteBody: HttpError(499, _REQUEST, "client_disconnected"),
    UnsupportedMediaType: HttpError(415, _REQUEST, "unsupported_media_type"),
    errors.InvalidRequest: HttpError(400, _REQUEST, "invalid_value"),
    errors.UnsupportedParameter: HttpError(400, _REQUEST, "unsupported_parameter"),
    errors.InvalidIdempotencyKey: HttpError(400, _REQUEST, "invalid_idempotency_key"),
    errors.ContextLengthExceeded: HttpError(400, _REQUEST, "context_length_exceeded"),
    errors.PromptBlocked: HttpError(400, _REQUEST, "content_policy_violation"),
    errors.NotAuthenticated: HttpError(401, _REQUEST, "invalid_api_key"),
    errors.AmbiguousCredentials: HttpError(400, _REQUEST, "ambiguous_credentials"),
    errors.ScopeMissing: HttpError(403, _REQUEST, "missing_scope"),
    InvalidApiKey: HttpError(401, _REQUEST, "invalid_api_key", message="Incorrect API key provided."),
    AccountError: HttpError(503, _SERVER, "billing_unavailable", retry_after=5, message=_BUSY),
    StoreUnavailable: HttpError(503, _SERVER, "billing_unavailable", retry_after=5, message=_BUSY),
    PeopleError: HttpError(400, _REQUEST, "invalid_value"),
    NotPermitted: HttpError(403, _REQUEST, "insufficient_permissions", message=_NOT_PERMITTED),
    NoSuchRecord: HttpError(404, _REQUEST, "not_found", message="There is no such object in this organization."),
    LastOwner: HttpError(400, _REQUEST, "last_owner", message="An organization always has an owner."),
    RateLimitExceeded: HttpError(429, "requests", "rate_limit_exceeded"),
    TokenLimitExceeded: HttpError(429, "tokens", "rate_limit_exceeded"),
    LargerThanLimit: HttpError(429, "tokens", "rate_limit_exceeded", should_retry=False),
    InsufficientCredit: HttpError(429, _QUOTA, "insufficient_quota", should_retry=False, message=_credit_message),
    BudgetExhausted: HttpError(429, _QUOTA, "insufficient_quota", should_retry=False, message=_budget_message),
    AccountClosed: HttpError(429, _QUOTA, "billing_not_active", should_retry=False, message=_CLOSED),
    CreditError: HttpError(400, _REQUEST, "invalid_value"),
    PriceConflict: HttpError(409, _REQUEST, "price_conflict", should_retry=False),
    NoPrice: HttpError(503, _SERVER, "model_unavailable", should_retry=False, message=_NO_PRICE),
    KeyReused: HttpError(400, _REQUEST, "idempotency_key_reused", message=_REUSED),
    KeyInUse: HttpError(409, _REQUEST, "idempotency_key_in_use", retry_after=2, message=_IN_USE),
    AnswerNotKept: HttpError(409, _REQUEST, "idempotent_answer_not_kept", should_retry=False, message=_NOT_KEPT),
    StoredObjectError: HttpError(500, _SERVER, None, message=_INTERNAL),
    BlobTooLarge: HttpError(413, _REQUEST, "file_too_large"),
    StorageQuotaExceeded: HttpError(429, _QUOTA, "insufficient_quota", should_retry=False, message=_TOO_MUCH_STORED),
    DocumentNotFound: HttpError(404, _REQUEST, "not_found"),
    UnacceptableUpload: HttpError(400, _REQUEST, "invalid_value"),
    BlobNotFound: HttpError(404, _REQUEST, "not_found", message=_NO_FILE),
    IndexNotReady: HttpError(503, _SERVER, "index_not_ready", retry_after=2, message=_NO_INDEX),
    BlobsUnavailable: HttpError(503, _SERVER, "service_unavailable", retry_after=5, message=errors.BrokerDown.message),
    ContextTooLarge: HttpError(400, _REQUEST, "context_length_exceeded"),
    AddressForged: HttpError(403, _REQUEST, "invalid_signature", message=_FORGED),
    AddressExpired: HttpError(403, _REQUEST, "address_expired", message=_EXPIRED),
    errors.TooManyConnections: HttpError(429, "requests", "rate_limit_exceeded", retry_after=10),
    errors.UnknownUrl: HttpError(404, _REQUEST, "unknown_url"),
    errors.MethodNotAllowed: HttpError(405, _REQUEST, "method_not_allowed"),
    errors.ExportsBusy: HttpError(503, _SERVER, "exports_busy", retry_after=5),
    errors.ModelNotFound: HttpError(404, _REQUEST, "model_not_found"),
    errors.ModelNotDeletable: HttpError(403, _REQUEST, "model_not_deletable"),
    errors.ModerationUnavailable: HttpError(503, _SERVER, "moderation_unavailable", retry_after=5),
    ModelUnavailable: HttpError(503, _SERVER, "model_unavailable", retry_after=10),
    errors.Overloaded: HttpError(503, _SERVER, "overloaded", retry_after=5),
    errors.BrokerDown: HttpError(503, _SERVER, "service_unavailable", retry_after=5),
    Unroutable: HttpError(503, _SERVER, "model_unavailable", retry_after=10, message=ModelUnavailable.message),
    QueueFull: HttpError(503, _SERVER, "overloaded", retry_after=2, retry_until=5, message=_BUSY),
    BrokerUnavailable: HttpError(503, _SERVER, "service_unavailable", retry_after=5, message=errors.BrokerDown.message),
    PublishUnknown: HttpError(503, _SERVER, "service_unavailable", retry_after=5, message=errors.BrokerDown.message),
    PublishError: HttpError(503, _SERVER, "service_unavailable", retry_after=5, message=errors.BrokerDown.message),
    FailureCode.CONTEXT_LENGTH_EXCEEDED: HttpError(400, _REQUEST, "context_length_exceeded"),
    FailureCode.INVALID_PROMPT: HttpError(400, _REQUEST, "invalid_prompt"),
    FailureCode.INVALID_PARAMETER: HttpError(400, _REQUEST, "invalid_value"),
    FailureCode.TOO_MANY_TOKENS: HttpError(400, _REQUEST, "invalid_value"),
    FailureCode.DEADLINE_EXCEEDED: HttpError(408, _SERVER, "deadline_exceeded"),
    FailureCode.ENGINE_ERROR: HttpError(500, _SERVER, "engine_error"),
    FailureCode.WORKER_LOST: HttpError(503, _SERVER, "worker_lost", retry_after=1),
    FailureCode.WORKER_SHUTDOWN: HttpError(503, _SERVER, "worker_shutdown", retry_after=1),
    FailureCode.FAILED_REPEATEDLY: HttpError(500, _SERVER, "job_failed_repeatedly", should_retry=False),
    FailureCode.UNDECODABLE: HttpError(500, _SERVER, "undecodable_job", should_retry=False),
    FailureCode.UPSTREAM_ERROR: HttpError(502, _SERVER, "upstream_error"),
    FailureCode.UPSTREAM_TIMEOUT: HttpError(504, _SERVER, "upstream_error"),
    FailureCode.UPSTREAM_BUSY: HttpError(503, _SERVER, "overloaded", retry_after=5),
    JobCancelled: HttpError(503, _SERVER, "cancelled", should_retry=False),
    DeadlinePassed: HttpError(408, _SERVER, "deadline_exceeded"),
    WorkerLost: HttpError(503, _SERVER, "worker_lost", retry_after=1),
    NotQueued: HttpError(503, _SERVER, "service_unavailable", retry_after=5),
    UpstreamUnreachable: HttpError(503, _SERVER, "upstream_unreachable", retry_after=5),
    RepliesLost: HttpError(503, _SERVER, "replies_lost", retry_after=1),
    SlowClient: HttpError(408, _REQUEST, "client_too_slow"),
    errors.ClientDisconnected: HttpError(499, _REQUEST, "client_disconnected"),
    errors.ServerShutdown: HttpError(503, _SERVER, "server_shutdown", retry_after=5),
    Exception: HttpError(500, _SERVER, None, message=_INTERNAL),
}


_RESPONSE_CODES = {400: "invalid_prompt", 429: "rate_limit_exceeded"}
"""Codes of a response's error by HTTP status; OpenAI's specification has a fixed list of them."""


def http_error(error: Exception) -> HttpError:
    """Return the row of the error table for an exception: by its failure code if any, else by class or nearest base."""
    if isinstance(error, JobFailed):
        return HTTP_ERRORS[error.failure]
    return next(HTTP_ERRORS[kind] for kind in type(error).__mro__ if kind in HTTP_ERRORS)


def error_body(error: Exception) -> dict[str, Any]:
    """Return OpenAI's error body for an exception: `error` with `message`, `type`, `param` and `code` (some null)."""
    response = http_error(error)
    return {
        "error": {
            "message": response.message_of(error),
            "type": response.type,
            "param": getattr(error, "param", None),
            "code": getattr(error, "code", None) or response.code,
        }
    }


def response_error(error: Exception) -> dict[str, Any]:
    """Return `code` and `message` of a response's error for the exception that ended it."""
    code = _RESPONSE_CODES.get(http_error(error).status, "server_error")
    return {"code": code, "message": error_body(error)["error"]["message"]}


def error_headers(error: Exception) -> dict[str, str]:
    """Return an exception's extra response headers: authentication challenge, `Retry-After` and other retry hints."""
    response = http_error(error)
    headers: dict[str, str] = {}
    if response.status == 401:
        headers["www-authenticate"] = "Bearer"
    if response.status == 429 and response.should_retry is None and isinstance(error, RateLimitExceeded):
        headers |= _retry_headers(error.wait)
    retry_after = getattr(error, "retry_after", None) or response.retry_after
    if retry_after is not None and response.retry_until is not None:
        retry_after += secrets.randbelow(response.retry_until - retry_after + 1)
    if retry_after is not None:
        headers["retry-after"] = str(min(retry_after, errors.MAX_RETRY_AFTER))
    if response.should_retry is not None:
        headers["x-should-retry"] = "true" if response.should_retry else "false"
    return headers


def _retry_headers(seconds: float) -> dict[str, str]:
    """Return `Retry-After` in whole seconds, and in milliseconds for OpenAI's clients."""
    milliseconds = min(max(1, math.ceil(seconds * 1000)), errors.MAX_RETRY_AFTER * 1000)
    return {"retry-after": str(-(-milliseconds // 1000)), "retry-after-ms": str(milliseconds)}
