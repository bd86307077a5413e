"""Settlement messages: usage records (what a worker generated) and receipts (what a gateway delivered)."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from router.messages.base import FailureCode, Message, Usage, UsagePart


class Outcome(StrEnum):
    """How a job ended."""

    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class UsageRecord(Message, frozen=True, kw_only=True, tag="usage"):
    """A worker's record of an attempt's usage; published with confirm before the job is acknowledged.

    `digest` is the SHA-256 (hex) of the generated ids, to be compared with what was delivered.
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
    parts: list[UsagePart] = msgspec.field(default_factory=list)
    """What the job's steps used, those of earlier attempts included."""


class ReportedUsage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the worker of a finished job reported in its replies: evidence if the worker dies before its usage record.

    `usage` is that of `Finished`, `parts` those of the accepted steps; neither is cut to the job's hold.
    """

    attempt: str
    """Id of the attempt that finished, whose usage record has the same usage."""
    usage: Usage
    parts: tuple[UsagePart, ...] = ()
    checks: tuple[UsagePart, ...] = ()
    """What workers reported of the moderation of the prompt and the answer, which the usage record lacks."""


class Receipt(Message, frozen=True, kw_only=True, tag="receipt"):
    """A gateway's record of what it delivered of a job; published with confirm. The job's cost follows from it.

    A job's first receipt counts, later ones are ignored. `usage` is what the response reports, or would have reported:
    the prompt and the tokens accepted for delivery; all zeros if the job failed before its first token.
    """

    job: str
    tenant: str
    gateway: str
    outcome: Outcome
    usage: Usage
    at: float
    parts: list[UsagePart] = msgspec.field(default_factory=list)
    """What the accepted steps, and the moderation of prompt and answer, used in addition to `usage`."""
    reported: ReportedUsage | None = None
    """What the worker reported; null if the job did not finish, or is not paid for."""


Settlement = UsageRecord | Receipt
