"""The classifier way of routing: n-grams and cues of the question, logistic regression, trained at start.

Training takes half a second, so that no trained file is stored, shipped or trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer

from assistant.model_port import ModelPort
from assistant.routing.cues import cues
from assistant.routing.labelled_prompts import LABELS, Label, LabelledPrompt
from assistant.routing.language import language_of
from assistant.routing.normal_form import plain
from assistant.routing.router import Choice
from assistant.tools.tool import Tool
from assistant.turn import Turn
from router.messages import Usage

UNSURE = 0.45
"""Probability of a tool below which the question is answered directly; chosen by cross-validation."""
NO_EVIDENCE = 0.5
"""Probability of a direct answer to a question without any cue."""
CUE_WEIGHT, WORD_WEIGHT = 1.0, 0.7
"""Weights of cues and of word n-grams beside character n-grams; chosen by cross-validation."""
INVERSE_REGULARISATION = 3.0
WORD = r"\b\w+\b"
COPIES, DROPPED_CUES = 3, 0.3
"""Further copies of each training prompt, and the share of cues that a copy lacks."""
MAX_CHARACTERS = 2_000
"""Characters of a question that are classified: the first and the last half of them."""

StandAlone = Callable[[str, Sequence[Turn]], str]


@dataclass(frozen=True)
class Verdict:
    """What the classifier says about a question: the most probable label, and its probability."""

    label: Label
    probability: float


class Features(NamedTuple):
    """What the classifier reads of a question."""

    text: str
    cues: dict[str, float]


class ToolClassifier:
    """Classifier of stand-alone questions in English and Polish. Thread-safe once trained."""

    def __init__(self, prompts: Sequence[LabelledPrompt], stand_alone: StandAlone) -> None:
        """Train on `prompts`; `stand_alone` rewrites a follow-up with the turns before it."""
        questions = [cut(stand_alone(each.text, each.turns)) for each in prompts]
        features, labels = _augmented(questions, [each.tool for each in prompts])
        self._pipeline = _pipeline().fit(features, labels)
        self._labels: list[Label] = [label for each in self._pipeline.classes_ for label in LABELS if label == each]

    def classify(self, question: str) -> Verdict:
        """Return the label of a stand-alone question; "none" if no tool is probable enough."""
        if "none" in cues(cut(question)):
            return Verdict("none", NO_EVIDENCE)
        return verdict(self.probabilities(question))

    def probabilities(self, question: str) -> dict[Label, float]:
        """Return the probability of each label, whether or not the question has any cue."""
        question = cut(question)
        probabilities: list[float] = self._pipeline.predict_proba([Features(question, cues(question))])[0].tolist()
        return dict(zip(self._labels, probabilities, strict=True))


def verdict(probabilities: Mapping[Label, float]) -> Verdict:
    """Return the most probable label; "none" if it is a tool that is not probable enough."""
    best = max(probabilities, key=probabilities.__getitem__)
    if best != "none" and probabilities[best] < UNSURE:
        return Verdict("none", 1 - probabilities[best])
    return Verdict(best, probabilities[best])


class ClassifierRouter:
    """Router that chooses with a `ToolClassifier`; arguments are left to the tool's `from_question`.

    A tool without label (a web page, a tool of a tool server) is chosen if the classifier finds no other tool and the
    tool's own `from_question` finds arguments.
    """

    way = "classifier"

    def __init__(self, classifier: ToolClassifier) -> None:
        self._classifier = classifier

    async def choose(self, question: str, history: Sequence[Turn], tools: Sequence[Tool], models: ModelPort) -> Choice:
        """Return the tool for a stand-alone `question`; calls no model, and takes about two milliseconds."""
        return self.choice(self._classifier.classify(question), question, history, tools)

    def choice(
        self,
        found: Verdict,
        question: str,
        history: Sequence[Turn],
        tools: Sequence[Tool],
        usage: Usage | None = None,
    ) -> Choice:
        """Return the choice that follows from a verdict, which took `usage` of a model."""
        if any(tool.name == found.label for tool in tools):
            return Choice(found.label, confidence=found.probability, usage=usage)
        language = language_of(question, history)
        for tool in tools:
            if tool.name not in LABELS and (arguments := tool.from_question(question, language)) is not None:
                return Choice(tool.name, arguments, usage=usage)
        return Choice(None, confidence=found.probability, usage=usage)


def _augmented(questions: Sequence[str], labels: Sequence[Label]) -> tuple[list[Features], list[Label]]:
    """Return the questions, and copies that lack some cues: so that the classifier relies on no single one."""
    chance = Random(0)  # noqa: S311 - the same classifier at each start
    found = [Features(each, cues(each)) for each in questions]
    copies = [
        Features(each.text, {name: value for name, value in each.cues.items() if chance.random() >= DROPPED_CUES})
        for _ in range(COPIES)
        for each in found
    ]
    return [*found, *copies], [*labels] * (COPIES + 1)


def _pipeline() -> Pipeline:
    return make_pipeline(
        make_union(
            make_pipeline(FunctionTransformer(_present), DictVectorizer(), _times(CUE_WEIGHT)),
            make_pipeline(
                FunctionTransformer(_texts),
                make_union(
                    TfidfVectorizer(
                        preprocessor=plain, analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True, min_df=2
                    ),
                    make_pipeline(
                        TfidfVectorizer(preprocessor=plain, ngram_range=(1, 2), sublinear_tf=True, token_pattern=WORD),
                        _times(WORD_WEIGHT),
                    ),
                ),
            ),
        ),
        # liblinear takes a tenth of a second; lbfgs takes seconds where its BLAS threads wait for busy cores.
        OneVsRestClassifier(LogisticRegression(C=INVERSE_REGULARISATION, solver="liblinear")),
    )


def _present(features: Sequence[Features]) -> list[dict[str, float]]:
    return [dict.fromkeys(each.cues, 1.0) for each in features]


def _texts(features: Sequence[Features]) -> list[str]:
    return [each.text for each in features]


def _times(factor: float) -> FunctionTransformer:
    def multiply(values: Any) -> Any:
        return values * factor

    return FunctionTransformer(multiply)


def cut(question: str, most: int = MAX_CHARACTERS) -> str:
    """Return the first and the last half of `most` characters of a longer question."""
    half = most // 2
    return question if len(question) <= most else f"{question[:half]} {question[-half:]}"
