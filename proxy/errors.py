"""What can go wrong outside, drawn as a tree. The messages are for clients: no address, key or internals in them.

    UpstreamError               `code` is what the job fails with
    ├── Elsewhere               before the first token another upstream may do better
    │   ├── Unreachable         no connection, or it went before the answer was whole
    │   ├── TooSlow             nothing came within a time limit
    │   ├── Failed              it says that it failed: 5xx, or an error event
    │   ├── Misbehaved          not what the API says: a redirect, HTML, garbage, too much, a gap
    │   ├── RefusedUs           our key or the model's name there is wrong: the operator's mistake, never the client's
    │   └── Busy                429, or it is left alone for a while (`retry_after`)
    └── RequestRefused          400: the client's request; its message, cleaned, is passed on

Knows no HTTP client.
"""

from __future__ import annotations

from typing import ClassVar

from router.messages import FailureCode


class UpstreamError(Exception):
    """Base. `reason` is for our log, `message` for the client."""

    code: ClassVar[FailureCode] = FailureCode.UPSTREAM_ERROR
    message: str = "The model's provider failed on this request."
    blamed: ClassVar[bool] = True
    """Whether it speaks against the upstream, as its circuit breaker sees it."""
    passing: ClassVar[bool] = False
    """Whether the same upstream may do better a moment later."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after: int | None = None


class Elsewhere(UpstreamError):
    """Another upstream may do better."""


class Unreachable(Elsewhere):
    """There is no connection, or it went."""

    message = "The model's provider could not be reached."
    passing = True


class TooSlow(Elsewhere):
    """Nothing came in time."""

    code = FailureCode.UPSTREAM_TIMEOUT
    message = "The model's provider did not answer in time."


class Failed(Elsewhere):
    """It says that it failed."""

    passing = True


class Misbehaved(Elsewhere):
    """It does not keep to the API."""

    message = "The model's provider sent an answer that can't be read."


class RefusedUs(Elsewhere):
    """It does not know us, or not the model."""

    message = "The model's provider is not set up correctly here."


class Busy(Elsewhere):
    """It asks us to come back later, or has failed so often that it is left alone."""

    code = FailureCode.UPSTREAM_BUSY
    message = "The model's provider is overloaded. Please try again later."
    blamed = False

    def __init__(self, reason: str, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class RequestRefused(UpstreamError):
    """It refuses the request for what is in it."""

    blamed = False

    def __init__(self, message: str, *, param: str | None = None, too_long: bool = False) -> None:
        super().__init__("it refuses the request")  # its message may quote the prompt: not for our log
        self.message = message
        self.param = param
        self.too_long = too_long
