"""What every spelling of an answer has in common: its head, and finished choices."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from gateway.admit import Reservation
from router.messages import FinishReason, Job, ServiceClass, TokenLogprob, ToolCallDelta

LOWEST_LOGPROB = -9999.0
"""What OpenAI reports for a token that is all but impossible; JSON has no -Infinity."""


@dataclass(frozen=True)
class Head:
    """The fields that repeat in every chunk of an answer."""

    id: str
    created: int
    model: str
    service_tier: ServiceClass
    system_fingerprint: str

    @classmethod
    def of(cls, job: Job, reservation: Reservation) -> Head:
        """The head of the answer that begins with `job`."""
        model = reservation.model
        version = hashlib.sha256(f"{model.name} {model.max_model_len}".encode()).hexdigest()[:10]
        return cls(job.id, int(job.created), model.name, reservation.service_class, f"fp_{version}")

    def fields(self, kind: str) -> dict[str, Any]:
        """What every chunk of a stream begins with."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "service_tier": self.service_tier.value,
            "system_fingerprint": self.system_fingerprint,
        }


@dataclass
class Collected:
    """A choice as far as it has come."""

    text: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    calls: list[ToolCallDelta] = field(default_factory=list)
    finish_reason: FinishReason | None = None


def bounded(logprob: float) -> float:
    """A log probability that JSON can carry."""
    return max(logprob, LOWEST_LOGPROB)
