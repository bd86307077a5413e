"""What is settled: a worker's word on what was generated, a gateway's on what its client got."""

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


class Receipt(Message, frozen=True, kw_only=True, tag="receipt"):
    """A gateway's word on what its client got of a job; published confirmed. It is what the job is settled to.

    A job's first receipt counts, later ones change nothing. `usage` is what the client was told, or would have been:
    the prompt and the tokens accepted for delivery; all zeros if the job failed before its first token.
    """

    job: str
    tenant: str
    gateway: str
    outcome: Outcome
    usage: Usage
    at: float


Settlement = UsageRecord | Receipt
