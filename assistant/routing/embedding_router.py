"""Chooses the tool for a question by the classifier, with a second opinion by a served model's sentence embeddings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

import structlog
from sklearn.linear_model import LogisticRegression

from assistant.model_port import ModelCallFailed, ModelPort
from assistant.routing.classifier import ClassifierRouter, StandAlone, ToolClassifier, mixed, verdict
from assistant.routing.labelled_prompts import LABELS, Label, LabelledPrompt
from assistant.routing.language import Language, language_of
from assistant.routing.normal_form import cut
from assistant.routing.router import Choice
from assistant.tools.tool import Tool
from assistant.turn import Turn

EMBEDDING_WEIGHT = 0.4
"""Weight of the embedding's log probabilities beside those of the `ToolClassifier`."""
INVERSE_REGULARISATION = 10.0
MOST_PER_LABEL = 50
"""Training prompts of a label and language that are embedded; more take time and add little."""
KNOWN_LANGUAGE = 0.65
"""Share of right labels above which an embedding model counts as one that knows a language."""
MAX_CHARACTERS = 500
"""Characters of a question that are embedded: the first and the last half of them."""
PATIENCE = 0.1
"""Seconds that a question waits for its vector."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Examples:
    """Questions of one language with their labels."""

    questions: list[str]
    labels: list[Label]

    def __getitem__(self, part: slice) -> _Examples:
        return _Examples(self.questions[part], self.labels[part])


class EmbeddingRouter:
    """Router that combines a `ToolClassifier` with classifiers of embeddings, for each language that the model knows.

    A part of the training prompts is embedded by unbilled calls in the background, at the first question. Until then,
    and when the embedding model fails or is slow, the `ToolClassifier` decides alone: `Choice.embedding` says so.
    """

    way = "classifier"

    def __init__(
        self, classifier: ToolClassifier, model: str, prompts: Sequence[LabelledPrompt], stand_alone: StandAlone
    ) -> None:
        """`model` is the embedding model, and `prompts` are the training prompts."""
        self._classifier = classifier
        self._alone = ClassifierRouter(classifier)
        self._model = model
        self._examples = {language: _examples(prompts, language, stand_alone) for language in _LANGUAGES}
        self._by_vector: dict[Language, LogisticRegression] | None = None
        self._training: asyncio.Task[None] | None = None

    @property
    def languages(self) -> frozenset[Language] | None:
        """Languages in which the embedding model gives a second opinion; `None` until the model was trained."""
        return None if self._by_vector is None else frozenset(self._by_vector)

    async def train(self, models: ModelPort) -> None:
        """Train the classifiers of embeddings, one for each language that the embedding model knows.

        Embeds the training prompts by `models`.

        Raises:
            ModelCallFailed: the embedding model is unknown, unavailable, or its job failed.
        """
        known = {}
        for language, examples in self._examples.items():
            half, other = examples[::2], examples[1::2]
            vectors = [*(await models.embed(self._model, half.questions)).vectors]
            if await asyncio.to_thread(_accuracy, vectors, half.labels) < KNOWN_LANGUAGE:
                continue
            vectors += (await models.embed(self._model, other.questions)).vectors
            known[language] = await asyncio.to_thread(_regression, vectors, [*half.labels, *other.labels])
        self._by_vector = known

    async def choose(self, question: str, history: Sequence[Turn], tools: Sequence[Tool], models: ModelPort) -> Choice:
        """Return the choice of a tool for a question that stands alone, with the usage of embedding the question.

        Where the embedding model is not trained yet, fails or is late, the n-gram classifier decides alone; nothing is
        raised.
        """
        if self._by_vector is None:
            self._train_in_background(models)
            return await self._choose_alone(question, history, tools, models, "training")
        by_vector = self._by_vector.get(language_of(question, history))
        if by_vector is None or not question.strip():
            return await self._choose_alone(question, history, tools, models, "language")
        try:
            async with asyncio.timeout(PATIENCE):
                found = await models.embed(self._model, [cut(question, MAX_CHARACTERS)])
        except TimeoutError:
            return await self._choose_alone(question, history, tools, models, "late")
        except ModelCallFailed as error:
            _log.warning("the question was not embedded, n-grams decide alone", reason=str(error))
            return await self._choose_alone(question, history, tools, models, "failed")
        labels: list[Label] = by_vector.classes_.tolist()
        by_embedding = dict(zip(labels, by_vector.predict_proba(found.vectors)[0].tolist(), strict=True))
        combined = mixed(self._classifier.probabilities(question), by_embedding, EMBEDDING_WEIGHT)
        choice = self._alone.choice(verdict(combined), question, history, tools, found.usage)
        return replace(choice, embedding="used")

    async def _choose_alone(
        self, question: str, history: Sequence[Turn], tools: Sequence[Tool], models: ModelPort, why: str
    ) -> Choice:
        return replace(await self._alone.choose(question, history, tools, models), embedding=why)

    def _train_in_background(self, models: ModelPort) -> None:
        if self._training is None or self._training.done():
            self._training = asyncio.create_task(self._train(models))

    async def _train(self, models: ModelPort) -> None:
        try:
            await self.train(models)
        except ModelCallFailed as error:
            _log.warning("the training prompts were not embedded, the next question tries again", reason=str(error))


_LANGUAGES: tuple[Language, ...] = get_args(Language)


def _examples(prompts: Sequence[LabelledPrompt], language: Language, stand_alone: StandAlone) -> _Examples:
    """Return at most `MOST_PER_LABEL` prompts of each label, spread over all of them."""
    spread: list[LabelledPrompt] = []
    for label in LABELS:
        of_label = [each for each in prompts if (each.lang, each.tool) == (language, label)]
        count = min(MOST_PER_LABEL, len(of_label))
        spread += [of_label[number * len(of_label) // count] for number in range(count)]
    questions = [cut(stand_alone(each.text, each.turns), MAX_CHARACTERS) for each in spread]
    return _Examples(questions, [each.tool for each in spread])


def _accuracy(vectors: Sequence[Sequence[float]], labels: Sequence[Label]) -> float:
    """Return the share of right labels of a third of the vectors, by a regression of the others."""
    tested = range(0, len(vectors), 3)
    others = [number for number in range(len(vectors)) if number % 3]
    regression = _regression([vectors[number] for number in others], [labels[number] for number in others])
    return float(regression.score([vectors[number] for number in tested], [labels[number] for number in tested]))


def _regression(vectors: Sequence[Sequence[float]], labels: Sequence[Label]) -> LogisticRegression:
    return LogisticRegression(C=INVERSE_REGULARISATION, max_iter=500).fit(vectors, labels)
