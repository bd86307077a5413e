"""Defines the port of routing: a router chooses which tool, if any, a question of a conversation needs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from assistant.model_port import ModelPiece, ModelPort
from assistant.tools.tool import Tool
from assistant.turn import Turn
from router.messages import Usage


@dataclass(frozen=True)
class Choice:
    """The decision of a router."""

    tool: str | None
    """Name of the tool; `None`: answer directly."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Empty if the router finds none: the tool's `from_question` does."""
    confidence: float | None = None
    """Probability of the decision, 0 to 1; `None`: the router has none."""
    usage: Usage | None = None
    """Tokens that the decision used at the router's model; `None`: it used no model."""
    embedding: str = ""
    """What an embedding model did: "used", or why n-grams decided alone: "late", "failed", "training", or "language"
    (which the model does not know). Empty if the router has no embedding model."""
    answer: AsyncGenerator[ModelPiece] | None = None
    """The running answer, from its first piece, if the router's model answers directly; its reader closes it."""


class Router(Protocol):
    """A way of choosing tools."""

    @property
    def way(self) -> str:
        """Name of this way of choosing tools, as steps and tables show it: "function", "grammar" or "classifier"."""
        ...

    async def choose(self, question: str, history: Sequence[Turn], tools: Sequence[Tool], models: ModelPort) -> Choice:
        """Choose which of `tools` the question needs, after the turns of `history`.

        `models` calls the router's model, if it has one. A choice without a tool means a direct answer.

        Raises:
            ModelCallFailed: the router's model did not answer.
        """
        ...
