"""Errors that end the answering of published jobs (failed, cancelled, worker lost, ...); the gateway maps them to HTTP.

GenerationError
├── JobFailed, JobCancelled, DeadlinePassed, NotQueued, ModelUnavailable
├── WorkerLost (NotContinuable), UpstreamUnreachable, RepliesLost
└── SlowClient

An error's message is sent to the client and must not reveal internals.
"""

from __future__ import annotations

from router.messages import Failed


class GenerationError(Exception):
    """Base of the errors that end a generation after its jobs were opened; the message is sent to the client."""

    message = "The request could not be handled."

    def __init__(self, message: str | None = None, *, param: str | None = None) -> None:
        super().__init__(message or self.message)
        self.param = param
        """Request field that the error is about, if any."""


class JobFailed(GenerationError):
    """Raised when the terminal reply to a job says that it failed, with the reply's failure code."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message, param=failed.param)
        self.failure = failed.code
        self.usage = failed.usage
        """What the job used before it failed, if its worker reported that."""
        self.retry_after = failed.retry_after


class JobCancelled(GenerationError):
    """Raised when a job was cancelled, but not by its producer."""

    message = "The request was cancelled."


class ModelUnavailable(GenerationError):
    """Raised for a known model without a live worker."""

    message = "No worker is serving this model at the moment. Please try again later."


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

    message = "The service is temporarily unavailable. Please try again later."


class UpstreamUnreachable(GenerationError):
    """Raised when the connection to the broker is lost while a request is running."""

    message = "The connection to the workers was lost."


class RepliesLost(GenerationError):
    """Raised when replies are missing, so that the answer has a gap."""

    message = "A part of the answer was lost. Please try again."


class SlowClient(GenerationError):
    """Raised when a client reads its response too slowly, so that unread output exceeds a limit or a send times out."""

    message = "The client reads too slowly."
