"""Response model of the steps before an answer (an extension): rewriting, routing, tool calls, summaries, searches."""

from __future__ import annotations

from typing import Any

from gateway.openai.base import ApiModel
from router.messages import Step
from stored_objects.images.results import BlobAddress, with_addresses


class AnswerStep(ApiModel):
    """A step before the first token of an answer. A client that sends it back in a later turn changes nothing."""

    number: int
    """Number of the step within the answer, from 0; a running step and its end have the same."""
    kind: str
    """`rewrite`, `route`, `tool`, `summary` or `search`."""
    name: str
    """Name of the tool or model that the step uses, or the method of a search."""
    state: str
    """`running`, `done` or `failed`."""
    data: dict[str, Any]
    """Result of the step, or its error; the fields follow from `kind`."""

    @classmethod
    def of(cls, step: Step, address: BlobAddress) -> AnswerStep:
        """Convert a job's step to its response model, without usage and with the URLs (by `address`) of its images."""
        data = with_addresses(step.data, address)
        return cls(number=step.number, kind=step.kind, name=step.name, state=step.state.value, data=data)
