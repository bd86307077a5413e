"""The classifier way of routing with a second opinion: a classifier of sentence embeddings from a served model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog
from sklearn.linear_model import LogisticRegression

from assistant.model_port import ModelCallFailed, ModelPort
from assistant.routing.classifier import ClassifierRouter, StandAlone, ToolClassifier, cut, verdict
from assistant.routing.labelled_prompts import LABELS, Label, LabelledPrompt
from assistant.routing.language import language_of
from assistant.routing.router import Choice
from assistant.tools.tool import Tool
from assistant.turn import Turn

EMBEDDED_LANGUAGE = "en"
"""Language of the questions that are embedded: the served sentence encoders know English only."""
EMBEDDING_WEIGHT = 0.6
"""Weight of the embedding's log probabilities beside those of n-grams and cues; chosen by cross-validation on training
prompts of which half the cues were hidden, as in wordings that the cues do not cover."""
INVERSE_REGULARISATION = 30.0
SMALLEST = 1e-6
"""Added to probabilities before their logarithm is taken."""
MAX_CHARACTERS = 500
"""Characters of a question that are embedded: the first and the last half of them."""
PATIENCE = 1.0
"""Seconds that a question waits for its vector."""

_log = structlog.get_logger(__name__)


class EmbeddingRouter:
    """Router that combines a `ToolClassifier` with a classifier of embeddings, for English questions.

    The training prompts are embedded by one unbilled call in the background, at the first question. Until then, and
    when the embedding model fails or is slow, the `ToolClassifier` decides alone.
    """

    way = "classifier"

    def __init__(
        self, classifier: ToolClassifier, model: str, prompts: Sequence[LabelledPrompt], stand_alone: StandAlone
    ) -> None:
        """`model` is the embedding model; `prompts` are the training prompts, of which the English ones are used."""
        self._classifier = classifier
        self._alone = ClassifierRouter(classifier)
        self._model = model
        used = [each for each in prompts if each.lang == EMBEDDED_LANGUAGE]
        self._questions = [cut(stand_alone(each.text, each.turns), MAX_CHARACTERS) for each in used]
        self._tools: list[Label] = [each.tool for each in used]
        self._by_vector: LogisticRegression | None = None
        self._training: asyncio.Task[None] | None = None

    @property
    def trained(self) -> bool:
        """Whether the vectors of the training prompts are known."""
        return self._by_vector is not None

    async def train(self, models: ModelPort) -> None:
        """Embed the training prompts and train on the vectors.

        Raises:
            ModelCallFailed: the embedding model is unknown, unavailable, or its job failed.
        """
        found = await models.embed(self._model, self._questions)
        regression = LogisticRegression(C=INVERSE_REGULARISATION, max_iter=500)
        self._by_vector = await asyncio.to_thread(regression.fit, found.vectors, self._tools)

    async def choose(self, question: str, history: Sequence[Turn], tools: Sequence[Tool], models: ModelPort) -> Choice:
        """Return the tool for a stand-alone `question`, with the usage of embedding it."""
        if language_of(question, history) != EMBEDDED_LANGUAGE or not question.strip():
            return await self._alone.choose(question, history, tools, models)
        if self._by_vector is None:
            self._train_in_background(models)
            return await self._alone.choose(question, history, tools, models)
        try:
            async with asyncio.timeout(PATIENCE):
                found = await models.embed(self._model, [cut(question, MAX_CHARACTERS)])
        except (ModelCallFailed, TimeoutError) as error:
            _log.warning("the question was not embedded, n-grams decide alone", reason=str(error) or "too slow")
            return await self._alone.choose(question, history, tools, models)
        by_vector = self._by_vector
        probabilities: list[float] = by_vector.predict_proba(found.vectors)[0].tolist()
        combined = self._combined(question, dict(zip(by_vector.classes_.tolist(), probabilities, strict=True)))
        return self._alone.choice(verdict(combined), question, history, tools, found.usage)

    def _combined(self, question: str, by_vector: dict[str, float]) -> dict[Label, float]:
        """Return the normalised weighted geometric mean of both classifiers' probabilities."""
        by_words = self._classifier.probabilities(question)
        product = {
            label: (by_words[label] + SMALLEST) ** (1 - EMBEDDING_WEIGHT)
            * (by_vector.get(label, 0.0) + SMALLEST) ** EMBEDDING_WEIGHT
            for label in LABELS
        }
        total = sum(product.values())
        return {label: each / total for label, each in product.items()}

    def _train_in_background(self, models: ModelPort) -> None:
        if self._training is None or self._training.done():
            self._training = asyncio.create_task(self._train(models))

    async def _train(self, models: ModelPort) -> None:
        try:
            await self.train(models)
        except ModelCallFailed as error:
            _log.warning("the training prompts were not embedded, the next question tries again", reason=str(error))
