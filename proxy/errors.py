"""Exceptions of the proxy's requests to upstream providers; their messages go to clients and hold no address or key.

UpstreamError                     `code` is the job's failure code
├── FailoverError                 before the first token, the next route is tried
│   ├── UpstreamUnreachable       no connection, or it broke before the answer was complete
│   ├── UpstreamTimeout           no event arrived within a time limit
│   ├── UpstreamFailed            5xx, or an error event
│   ├── InvalidAnswer             not the API's format: a redirect, HTML, an unknown event, too many bytes, a gap
│   ├── UpstreamMisconfigured     the operator's API key or model name is wrong; never the client's fault
│   └── UpstreamBusy              429, or the circuit breaker is open (`retry_after`)
└── RequestRefused                400: the client's request is invalid; its sanitised message is passed on
"""

from __future__ import annotations

from typing import ClassVar

from router.messages import FailureCode


class UpstreamError(Exception):
    """Base class of upstream failures. `reason` is for the log, `message` for the client."""

    outcome: ClassVar[str]
    """Label of the metric `headrace_upstream_requests_total`."""
    code: ClassVar[FailureCode] = FailureCode.UPSTREAM_ERROR
    message: str = "The model's provider failed on this request."
    counts_as_failure: ClassVar[bool] = True
    """Whether the circuit breaker counts it as a failure of the upstream."""
    transient: ClassVar[bool] = False
    """Whether a retry at the same upstream may succeed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after: int | None = None


class FailoverError(UpstreamError):
    """Base class of upstream failures after which, before the first token, the job's next route is tried."""


class UpstreamUnreachable(FailoverError):
    """Raised when there is no connection to the upstream, or the connection broke."""

    outcome = "Unreachable"
    message = "The model's provider could not be reached."
    transient = True


class UpstreamTimeout(FailoverError):
    """Raised when the upstream did not answer within a time limit."""

    outcome = "TooSlow"
    code = FailureCode.UPSTREAM_TIMEOUT
    message = "The model's provider did not answer in time."


class UpstreamFailed(FailoverError):
    """Raised when the upstream reports an internal error."""

    outcome = "Failed"
    transient = True


class InvalidAnswer(FailoverError):
    """Raised when the upstream's answer does not follow the API."""

    outcome = "Misbehaved"
    message = "The model's provider sent an answer that can't be read."


class UpstreamMisconfigured(FailoverError):
    """Raised when the upstream rejects the API key or does not have the model."""

    outcome = "RefusedUs"
    message = "The model's provider is not set up correctly here."


class UpstreamBusy(FailoverError):
    """Raised when the upstream answers 429, or its circuit breaker is open."""

    outcome = "Busy"
    code = FailureCode.UPSTREAM_BUSY
    message = "The model's provider is overloaded. Please try again later."
    counts_as_failure = False

    def __init__(self, reason: str, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class RequestRefused(UpstreamError):
    """Raised when the upstream, or the proxy, rejects the client's request as invalid."""

    outcome = "RequestRefused"
    counts_as_failure = False

    def __init__(self, message: str, *, param: str | None = None, too_long: bool = False) -> None:
        super().__init__("the request is rejected")  # without the upstream's message, which may quote the prompt
        self.message = message
        self.param = param
        self.too_long = too_long
