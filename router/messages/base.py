"""What all messages share: the version they were written in, and the words that several of them use."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

WIRE_VERSION = 1

Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class ServiceClass(StrEnum):
    """The queue class of a job: OpenAI's `service_tier`. Batches run as `FLEX`."""

    PRIORITY = "priority"
    DEFAULT = "default"
    FLEX = "flex"


class FailureCode(StrEnum):
    """Why a job failed. `gateway/errors.py` holds the one table from these to HTTP."""

    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    INVALID_PROMPT = "invalid_prompt"
    INVALID_PARAMETER = "invalid_parameter"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    ENGINE_ERROR = "engine_error"
    WORKER_LOST = "worker_lost"
    WORKER_SHUTDOWN = "worker_shutdown"
    FAILED_REPEATEDLY = "job_failed_repeatedly"
    UNDECODABLE = "undecodable_job"
    UPSTREAM_ERROR = "upstream_error"
    """An upstream outside could not be reached, failed, or did not keep to the API."""
    UPSTREAM_TIMEOUT = "upstream_timeout"
    UPSTREAM_BUSY = "upstream_busy"


class Message(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A top-level message; carries the version it was written in."""

    v: int = msgspec.field(default_factory=lambda: WIRE_VERSION)


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Tokens of one job over all its choices. `cached_tokens` are part of `prompt_tokens`."""

    prompt_tokens: Count
    completion_tokens: Count = 0
    cached_tokens: Count = 0
