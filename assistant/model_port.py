"""Defines the port through which the assistant calls models: child jobs implement it, and a scripted one in tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from router.messages import Delta, Grammar, ToolCallDelta, ToolChoice, Usage


class ModelCallFailed(Exception):
    """Raised by `ModelPort.generate` if the model is unknown, unavailable, or its job failed; the text says why."""


@dataclass(frozen=True)
class ModelRequest:
    """One call of a model: messages and tools in OpenAI's format, limits, and an optional grammar of the output."""

    model: str
    messages: Sequence[dict[str, Any]]
    tools: Sequence[dict[str, Any]] = ()
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    grammar: Grammar | None = None
    max_tokens: int | None = None
    """`None`: the operator's default for the model."""
    temperature: float = 0.0
    answers: bool = False
    """Whether the output is the job's answer unless it calls a function: its prompt and limits are then the job's."""


@dataclass(frozen=True)
class ModelPiece:
    """The next part of a model's output."""

    text: str = ""
    tool_calls: Sequence[ToolCallDelta] = ()
    """Additions to tool calls; `text` does not contain their markup."""
    token_ids: Sequence[int] = ()
    """Empty if unknown, as with upstream providers."""
    usage: Usage | None = None
    """Usage up to this piece, which a call that is cut off is billed for; the last piece has that of the whole call."""
    delta: Delta | None = None
    """The reply that the piece was made of; `None` for pieces without output and those of scripted models."""


@dataclass(frozen=True)
class Embeddings:
    """Vectors of texts, in their order, and the tokens that they took."""

    vectors: Sequence[Sequence[float]]
    usage: Usage


class ModelPort(Protocol):
    """Calls models of the platform."""

    async def embed(self, model: str, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of `texts`, in their order, by the embedding model `model`.

        Cancelling the call cancels the model's job.

        Raises:
            ModelCallFailed: the model is unknown, unavailable, or its job failed.
        """
        ...

    def generate(self, request: ModelRequest) -> AsyncGenerator[ModelPiece]:
        """Return a generator of the pieces of a model's answer to `request`; implementations call the model.

        Pieces are yielded as they arrive; closing the generator cancels the call.

        Raises:
            ModelCallFailed: while it is iterated: the model is unknown, unavailable, or its job failed.
        """
        ...
