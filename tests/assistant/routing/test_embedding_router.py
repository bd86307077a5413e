"""The classifier with embeddings: languages that the model knows, and n-grams alone where it fails or is late."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from assistant.model_port import Embeddings, ModelCallFailed
from assistant.routing import embedding_router
from assistant.routing.classifier import ToolClassifier
from assistant.routing.embedding_router import MOST_PER_LABEL, EmbeddingRouter
from assistant.routing.labelled_prompts import LABELS, read_prompts
from assistant.routing.rule_rewriter import stand_alone
from router.messages import Usage
from tests.fakes.assistant import ScriptedModels, named_tools

PROMPTS = {stand_alone(each.text, each.turns): each for each in read_prompts()}


class Vectors(ScriptedModels):
    """Embeds training prompts of the languages that it knows as their labels, and any other text as a picture."""

    def __init__(self, *languages: str) -> None:
        super().__init__()
        self.languages = languages
        self.fails = self.slow = False
        self.texts: list[str] = []

    async def embed(self, model: str, texts: Sequence[str]) -> Embeddings:
        self.texts += texts
        if self.fails:
            raise ModelCallFailed("no worker")
        if self.slow:
            await asyncio.sleep(60)
        return Embeddings([self._vector(each) for each in texts], Usage(prompt_tokens=len(texts)))

    def _vector(self, text: str) -> list[float]:
        prompt = PROMPTS.get(text)
        known = prompt is not None and prompt.lang in self.languages
        label = prompt.tool if known and prompt else "image"
        return [float(label == each) for each in LABELS]


@pytest.fixture(scope="module")
def classifier() -> ToolClassifier:
    return ToolClassifier(read_prompts(), stand_alone)


@pytest.fixture
def router(classifier: ToolClassifier, monkeypatch: pytest.MonkeyPatch) -> EmbeddingRouter:
    monkeypatch.setattr(embedding_router, "PATIENCE", 20)
    return EmbeddingRouter(classifier, "minilm", read_prompts(), stand_alone)


async def test_the_first_question_trains_in_the_background(router: EmbeddingRouter) -> None:
    models = Vectors("en")
    first = await router.choose("two foxes on a swing", [], named_tools(), models)
    assert (first.usage, first.embedding) == (None, "training")
    async with asyncio.timeout(60):
        while router.languages is None:
            await asyncio.sleep(0.01)
    second = await router.choose("two foxes on a swing", [], named_tools(), models)
    assert (second.tool, second.usage, second.embedding) == ("image", Usage(prompt_tokens=1), "used")


async def test_a_failed_training_is_repeated(router: EmbeddingRouter) -> None:
    models = Vectors("en")
    models.fails = True
    with pytest.raises(ModelCallFailed):
        await router.train(models)
    assert router.languages is None
    models.fails = False
    await router.train(models)
    assert router.languages == {"en"}


@pytest.mark.parametrize("languages", [("en",), ("en", "pl"), ()])
async def test_only_languages_that_the_model_knows_are_embedded(
    router: EmbeddingRouter, languages: Sequence[str]
) -> None:
    models = Vectors(*languages)
    await router.train(models)
    assert router.languages == set(languages)
    for question, language in (("what is the weather in Turin", "en"), ("jaka jest pogoda w Turynie", "pl")):
        models.texts.clear()
        choice = await router.choose(question, [], named_tools(), models)
        known = language in languages
        assert models.texts == [question] * known
        assert choice.embedding == ("used" if known else "language")
        assert choice.tool == "weather" or known  # any new text is embedded as a picture


async def test_the_embedding_has_weight(router: EmbeddingRouter) -> None:
    models = Vectors("en")
    alone = await router.choose("hmm, two foxes", [], named_tools(), models)
    await router.train(models)
    both = await router.choose("hmm, two foxes", [], named_tools(), models)
    assert (alone.tool, both.tool) == (None, "image")


async def test_few_prompts_are_embedded(router: EmbeddingRouter) -> None:
    models = Vectors("en", "pl")
    await router.train(models)
    assert len(models.texts) <= 2 * len(LABELS) * MOST_PER_LABEL


@pytest.mark.parametrize(("how", "why"), [("fails", "failed"), ("slow", "late")])
async def test_without_vector_n_grams_decide_alone(
    router: EmbeddingRouter, how: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = Vectors("en")
    await router.train(models)
    setattr(models, how, True)
    monkeypatch.setattr(embedding_router, "PATIENCE", 0.05)
    choice = await router.choose("what is the weather in Turin", [], named_tools(), models)
    assert (choice.tool, choice.usage, choice.embedding) == ("weather", None, why)
