"""What is known of why a message died: words and numbers that travel in its headers, beside its untouched body.

Never a prompt, nor anything of an answer. Does not know queues.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from router.messages import FailureCode
from router.transport.base import HeaderValue

REASON_HEADER = "x-headrace-reason"
"""Why, in words."""
CODE_HEADER = "x-headrace-code"
DEATHS_HEADER = "x-headrace-deaths"
BY_HEADER = "x-headrace-by"
AT_HEADER = "x-headrace-at"


@dataclass(frozen=True)
class Diagnosis:
    """Why a job was given up."""

    code: FailureCode
    """What its caller was told."""
    reason: str
    deaths: int
    """How often something died with it in a row, or how often it was returned."""
    by: str
    """Who closed it: a worker's id, or the reaper."""
    at: float = field(default_factory=time.time)

    def headers(self) -> Mapping[str, HeaderValue]:
        """As headers; the time in whole Unix seconds."""
        return {
            REASON_HEADER: self.reason,
            CODE_HEADER: self.code.value,
            DEATHS_HEADER: self.deaths,
            BY_HEADER: self.by,
            AT_HEADER: int(self.at),
        }
