"""Runs the assistant's ways of choosing tools on labelled prompts, and scores them."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assistant.model_port import Embeddings, ModelCallFailed, ModelPiece, ModelPort, ModelRequest
from assistant.routing.classifier import ClassifierRouter, ToolClassifier
from assistant.routing.embedding_router import EmbeddingRouter
from assistant.routing.function_router import FunctionRouter
from assistant.routing.grammar_router import GrammarRouter
from assistant.routing.labelled_prompts import LabelledPrompt, read_prompts
from assistant.routing.language import Language
from assistant.routing.router import Choice, Router
from assistant.routing.rule_rewriter import stand_alone
from benchmarks.routing.embedding_models import EmbeddingModels
from benchmarks.routing.label_tools import LABEL_TOOLS
from benchmarks.routing.scoring import RoutingScore

LANGUAGES: tuple[Language, ...] = ("en", "pl")
WAYS = ("classifier", "classifier-embeddings", "grammar", "grammar-arguments", "function")
MODEL_WAYS = frozenset(WAYS[2:])
"""Ways that generate with a model."""
NO_MODEL = "-"
"""Name of the model in rows of ways that need none."""


class NoModels:
    """Model port without models."""

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelPiece]:
        """Refuse to generate text: stands for the models of a way of choosing tools that calls none.

        Raises:
            ModelCallFailed: always.
        """
        raise ModelCallFailed(f"{request.model} is not loaded")
        yield ModelPiece()

    async def embed(self, model: str, texts: Sequence[str]) -> Embeddings:
        """Refuse to embed texts: stands for the models of a way of choosing tools that calls none.

        Raises:
            ModelCallFailed: always.
        """
        raise ModelCallFailed(f"{model} is not loaded")


@dataclass(frozen=True)
class Way:
    """A router with the models that it calls."""

    name: str
    model: str
    """Name of the model that decides; `NO_MODEL`: none."""
    router: Router
    models: ModelPort

    async def choose(self, prompt: LabelledPrompt) -> Choice | None:
        """Return this way's choice of a tool for a labelled prompt; `None` if the model failed.

        Rules rewrite the prompt to stand alone first.
        """
        question = stand_alone(prompt.text, prompt.turns)
        try:
            return await self.router.choose(question, prompt.turns, LABEL_TOOLS, self.models)
        except ModelCallFailed:
            return None

    async def decide(self, prompt: LabelledPrompt) -> tuple[Choice | None, float]:
        """Return this way's choice for a labelled prompt, and the seconds that it took.

        The choice is `None` if the model failed. An answer that has begun is cancelled.
        """
        started = time.perf_counter()
        choice = await self.choose(prompt)
        seconds = time.perf_counter() - started
        if choice is not None and choice.answer is not None:
            await choice.answer.aclose()
        return choice, seconds


async def way_of(name: str, model: str, models: ModelPort, embeddings: Path) -> Way:
    """Create the way of choosing tools that is named `name`, trained if it needs training.

    Args:
        model: name of the model that decides, where the way needs one.
        models: runs that model.
        embeddings: folder of the embedding model.
    """
    match name:
        case "classifier":
            return Way(name, NO_MODEL, ClassifierRouter(ToolClassifier(read_prompts(), stand_alone)), models)
        case "classifier-embeddings":
            embedding, prompts = EmbeddingModels(embeddings), read_prompts()
            router = EmbeddingRouter(ToolClassifier(prompts, stand_alone), embeddings.name, prompts, stand_alone)
            await router.train(embedding)
            return Way(name, embeddings.name, router, embedding)
        case "grammar":
            return Way(name, model, GrammarRouter(model), models)
        case "grammar-arguments":
            return Way(name, model, GrammarRouter(model, with_arguments=True), models)
        case _:
            return Way(name, model, FunctionRouter(model, answers=True), models)


async def score_way(way: Way, prompts: Sequence[LabelledPrompt]) -> dict[Language, RoutingScore]:
    """Run a way of choosing tools on labelled prompts; return its score for each language.

    Two decisions before are not counted.
    """
    for prompt in prompts[:2]:
        await way.decide(prompt)
    scores = {language: RoutingScore() for language in LANGUAGES}
    for prompt in prompts:
        scores[prompt.lang].add(prompt, *await way.decide(prompt))
    return {language: each for language, each in scores.items() if each.seconds}
