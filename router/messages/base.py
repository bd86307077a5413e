"""Base types of the broker's messages: wire version, service classes, failure codes, and usage in tokens and units."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

WIRE_VERSION = 1

Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]
MAX_COUNT = 2**53 - 1
"""Largest `Count`: exact as a float, and sums of many counts fit into 64 bits."""
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]


class ServiceClass(StrEnum):
    """Service class of a job, from OpenAI's `service_tier`: each has a queue. Batches run as `FLEX`."""

    PRIORITY = "priority"
    DEFAULT = "default"
    FLEX = "flex"


class FailureCode(StrEnum):
    """Why a job failed. `gateway/errors.py` maps these to HTTP."""

    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    INVALID_PROMPT = "invalid_prompt"
    INVALID_PARAMETER = "invalid_parameter"
    TOO_MANY_TOKENS = "too_many_tokens"
    """The candidates of a `ScorePrompt` with `max_tokens` have more."""
    DEADLINE_EXCEEDED = "deadline_exceeded"
    ENGINE_ERROR = "engine_error"
    WORKER_LOST = "worker_lost"
    WORKER_SHUTDOWN = "worker_shutdown"
    FAILED_REPEATEDLY = "job_failed_repeatedly"
    UNDECODABLE = "undecodable_job"
    UPSTREAM_ERROR = "upstream_error"
    """An upstream provider was unreachable, failed, or violated the API."""
    UPSTREAM_TIMEOUT = "upstream_timeout"
    UPSTREAM_BUSY = "upstream_busy"


class Message(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Base of top-level messages; carries the wire version of its sender."""

    version: int = msgspec.field(name="v", default_factory=lambda: WIRE_VERSION)


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one job used over all its choices, in tokens and in units.

    `cached_tokens` are part of `prompt_tokens`, and `reasoning_tokens` of `completion_tokens`: reported to the client,
    never priced or stored.
    """

    prompt_tokens: Count
    completion_tokens: Count = 0
    cached_tokens: Count = 0
    reasoning_tokens: Count = 0
    units: dict[str, Count] = msgspec.field(default_factory=dict)
    """Numbers of things that are priced each, by unit: `1024x1024` (images of a size), `call` (tool calls)."""


class UsagePart(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A part of a job's usage that is priced at the price of its own model, such as a routing model or an image."""

    model: str
    """Name of a model, or `tool.NAME` for the calls of a tool."""
    usage: Usage
