"""Diagnosis of a job that failed for good: reason, failure code and time, as AMQP headers beside the job's body.

Must not contain anything of a prompt or an answer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from router.messages import FailureCode
from router.transport.base import HeaderValue

REASON_HEADER = "x-headrace-reason"
"""Header name; its value is the reason, for humans."""
CODE_HEADER = "x-headrace-code"
DEATHS_HEADER = "x-headrace-deaths"
BY_HEADER = "x-headrace-by"
AT_HEADER = "x-headrace-at"


@dataclass(frozen=True)
class Diagnosis:
    """Diagnosis of a job that failed for good: why, who closed it and when."""

    code: FailureCode
    """Failure code that the client received."""
    reason: str
    deaths: int
    """Consecutive worker crashes with this job, or how often it was returned to its queue."""
    by: str
    """Worker id, or the reaper, that closed the job."""
    at: float = field(default_factory=time.time)

    def headers(self) -> Mapping[str, HeaderValue]:
        """Return the diagnosis as AMQP headers for the diagnosed queue; the time is in whole Unix seconds."""
        return {
            REASON_HEADER: self.reason,
            CODE_HEADER: self.code.value,
            DEATHS_HEADER: self.deaths,
            BY_HEADER: self.by,
            AT_HEADER: int(self.at),
        }
