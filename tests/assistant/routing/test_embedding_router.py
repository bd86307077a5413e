"""The classifier with embeddings: English questions only, after training, and n-grams alone where the model fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from assistant.model_port import Embeddings, ModelCallFailed
from assistant.routing import embedding_router
from assistant.routing.classifier import ToolClassifier
from assistant.routing.embedding_router import EmbeddingRouter
from assistant.routing.labelled_prompts import LabelledPrompt, read_prompts
from assistant.routing.rule_rewriter import stand_alone
from router.messages import Usage
from tests.fakes.assistant import ScriptedModels, named_tools

PROMPTS = read_prompts()


class Vectors(ScriptedModels):
    """Embeds each training prompt as its label, and any other text as a picture."""

    fails = False
    slow = False
    calls = 0

    async def embed(self, model: str, texts: Sequence[str]) -> Embeddings:
        self.calls += 1
        if self.fails:
            raise ModelCallFailed("no worker")
        if self.slow:
            await asyncio.sleep(60)
        return Embeddings([self._vector(each) for each in texts], Usage(prompt_tokens=len(texts)))

    def _vector(self, text: str) -> list[float]:
        label = next((each.tool for each in PROMPTS if text == stand_alone(each.text, each.turns)), "image")
        return [float(label == each) for each in ("image", "weather", "wikipedia", "math", "documents", "none")]


@pytest.fixture(scope="module")
def classifier() -> ToolClassifier:
    prompts: list[LabelledPrompt] = PROMPTS
    return ToolClassifier(prompts, stand_alone)


@pytest.fixture
def router(classifier: ToolClassifier) -> EmbeddingRouter:
    return EmbeddingRouter(classifier, "minilm", PROMPTS, stand_alone)


async def test_the_first_question_trains_in_the_background(router: EmbeddingRouter) -> None:
    models = Vectors()
    first = await router.choose("two foxes on a swing", [], named_tools(), models)
    assert (first.tool, first.usage) == (None, None)
    async with asyncio.timeout(20):
        while not router.trained:
            await asyncio.sleep(0.01)
    second = await router.choose("two foxes on a swing", [], named_tools(), models)
    assert (second.tool, second.usage) == ("image", Usage(prompt_tokens=1))


async def test_polish_questions_are_not_embedded(router: EmbeddingRouter) -> None:
    models = Vectors()
    choice = await router.choose("jaka jest pogoda w Turynie", [], named_tools(), models)
    assert (choice.tool, models.calls) == ("weather", 0)


@pytest.mark.parametrize("how", ["fails", "slow"])
async def test_without_vector_n_grams_decide_alone(
    router: EmbeddingRouter, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_router, "PATIENCE", 0.05)
    models = Vectors()
    await router.train(models)
    setattr(models, how, True)
    choice = await router.choose("what is the weather in Turin", [], named_tools(), models)
    assert (choice.tool, choice.usage) == ("weather", None)
