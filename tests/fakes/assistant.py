"""Fakes of the assistant: a tool that routing can choose, and models with scripted answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any

from assistant.model_port import Embeddings, ModelCallFailed, ModelPiece, ModelRequest
from assistant.tools.tool import ToolContext

TEXT_SCHEMA = {"type": "string", "maxLength": 100}


@dataclass(frozen=True)
class NamedTool:
    """A tool that is only chosen, never run. `question_words` make `from_question` find arguments."""

    name: str
    description: str = "A tool."
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    time_limit: float = 1.0
    cache_seconds: float = 0.0
    question_words: str = ""

    def from_question(self, question: str, language: str) -> dict[str, Any] | None:
        words = self.question_words
        return {"found": words, "language": language} if words and words in question else None

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        raise NotImplementedError

    def phrased(self, result: dict[str, Any]) -> str | None:
        raise NotImplementedError

    def for_model(self, result: dict[str, Any]) -> str:
        raise NotImplementedError


def named_tools() -> list[NamedTool]:
    """Return tools with the names of the labels, with arguments like those of the real ones."""

    def one(argument: str) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {argument: TEXT_SCHEMA},
            "required": [argument],
            "additionalProperties": False,
        }

    return [
        NamedTool("image", "Draws a picture from a description.", one("prompt")),
        NamedTool("weather", "Current weather and forecast of a place.", one("place")),
        NamedTool("wikipedia", "Encyclopaedia article about a topic.", one("topic")),
        NamedTool("math", "Evaluates, solves and plots formulas.", one("expression")),
        NamedTool("documents", "Searches the person's own files.", one("query")),
    ]


@dataclass
class ScriptedModels:
    """A `ModelPort` whose answers are scripts of pieces, one script for each call, in order."""

    scripts: Sequence[Sequence[ModelPiece]] = ()
    requests: list[ModelRequest] = field(default_factory=list)
    closed_after: list[int] = field(default_factory=list)
    """Of each call that was closed: the number of pieces that were read."""

    async def embed(self, model: str, texts: Sequence[str]) -> Embeddings:
        raise ModelCallFailed("no vectors")

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelPiece]:
        self.requests.append(request)
        if len(self.requests) > len(self.scripts):
            raise ModelCallFailed("no script")
        read = 0
        try:
            for piece in self.scripts[len(self.requests) - 1]:
                read += 1
                yield piece
        except GeneratorExit:
            self.closed_after.append(read)
            raise
