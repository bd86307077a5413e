"""Message type of a job's steps before its answer: rewriting a question, routing, tool calls, summaries, searches."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from router.messages.base import Count, UsagePart


class StepState(StrEnum):
    """State of a job's step."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        """Whether a step in this state has its final result."""
        return self is not StepState.RUNNING


class Step(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One step of a job before the first token of its answer, with its result as JSON.

    An ended step takes one position of choice 0, so that lost and repeated steps are detected as tokens are.
    """

    number: Count
    """Number of the step within the job, from 0."""
    kind: str
    """"rewrite", "route", "tool", "summary" or "search"; `data` follows from it."""
    name: str
    """Name of the tool or model that the step uses, or of the method of a search."""
    state: StepState
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    parts: list[UsagePart] = msgspec.field(default_factory=list)
    """What the step used, each part priced at the price of its model."""
    shown_tokens: Count = 0
    """Tokens of the longest path that an ended step of a search shows: generated, and billed by the answer instead of
    `parts`. A client that leaves before the answer pays for them as for tokens of the answer."""
