"""What is settled."""

from __future__ import annotations

from enum import StrEnum

from router.messages.base import FailureCode, Message, Usage


class Outcome(StrEnum):
    """How a job ended."""

    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class UsageRecord(Message, frozen=True, kw_only=True, tag="usage"):
    """A worker's word on what an attempt cost; published confirmed, before the job is acknowledged.

    `digest` is the SHA-256 (hex) of the generated ids, so that it can be checked against what was delivered.
    """

    job: str
    attempt: str
    tenant: str
    model: str
    worker: str
    outcome: Outcome
    usage: Usage
    at: float
    digest: str = ""
    error: FailureCode | None = None
