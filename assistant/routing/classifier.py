"""Chooses the tool for a question by two logistic regressions, of n-grams and cues, trained at assistant start-up.

Training takes half a second, so that no trained file is stored, shipped or trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline, make_union

from assistant.model_port import ModelPort
from assistant.routing.cues import cues
from assistant.routing.labelled_prompts import LABELS, Label, LabelledPrompt
from assistant.routing.language import language_of
from assistant.routing.normal_form import cut, plain
from assistant.routing.router import Choice
from assistant.tools.tool import Tool
from assistant.turn import Turn
from router.messages import Usage

UNSURE = 0.3
"""Probability of a tool below which the question is answered directly."""
CUE_WEIGHT = 0.4
"""Weight of the log probabilities by cues beside those by n-grams.

These figures were chosen on prompts that were written after the cues. One regression of both kinds of features would
rely on cues alone, which find nearly all training prompts but not as many new ones.
"""
WORDS_REGULARISATION, CUES_REGULARISATION = 10.0, 1.0
"""Inverse strengths."""
WORD = r"\b\w+\b"
SMALLEST = 1e-6
"""Added to probabilities before their logarithm is taken."""
StandAlone = Callable[[str, Sequence[Turn]], str]


@dataclass(frozen=True)
class Verdict:
    """What the classifier says about a question: the most probable label, and its probability."""

    label: Label
    probability: float


class ToolClassifier:
    """Classifier of stand-alone questions in English and Polish. Thread-safe once trained."""

    def __init__(self, prompts: Sequence[LabelledPrompt], stand_alone: StandAlone) -> None:
        """Train on `prompts`; `stand_alone` rewrites a follow-up with the turns before it."""
        questions = [cut(stand_alone(each.text, each.turns)) for each in prompts]
        labels = [each.tool for each in prompts]
        self._by_words = _words().fit(questions, labels)
        self._by_cues = _cues().fit([_present(each) for each in questions], labels)

    def classify(self, question: str) -> Verdict:
        """Return the label (the tool or "none") of a question that stands alone, with its probability.

        "none" if no tool is probable enough.
        """
        return verdict(self.probabilities(question))

    def probabilities(self, question: str) -> dict[Label, float]:
        """Return the probability of each label (tool or "none") for a question that stands alone.

        It is the weighted geometric mean of both regressions, normalised.
        """
        question = cut(question)
        return mixed(
            _probabilities(self._by_words, question), _probabilities(self._by_cues, _present(question)), CUE_WEIGHT
        )


def mixed(one: Mapping[Label, float], other: Mapping[Label, float], weight: float) -> dict[Label, float]:
    """Combine two classifiers' probabilities by label to their weighted geometric mean, normalised.

    `weight` is that of `other`, 0 to 1.
    """
    product = {
        label: (one.get(label, 0.0) + SMALLEST) ** (1 - weight) * (other.get(label, 0.0) + SMALLEST) ** weight
        for label in LABELS
    }
    total = sum(product.values())
    return {label: each / total for label, each in product.items()}


def verdict(probabilities: Mapping[Label, float]) -> Verdict:
    """Return the most probable label with its probability; "none" if it is a tool that is not probable enough."""
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
        """Choose a tool for a question that stands alone, by the classifier; takes about two milliseconds.

        No model is called.
        """
        return self.choice(self._classifier.classify(question), question, history, tools)

    def choice(
        self,
        found: Verdict,
        question: str,
        history: Sequence[Turn],
        tools: Sequence[Tool],
        usage: Usage | None = None,
    ) -> Choice:
        """Return the choice that follows from a classifier's verdict `found` about a question.

        If the label has no tool, a tool without label is chosen that finds its arguments in the question. `usage`: the
        tokens of the embedding model, if one was asked.
        """
        if any(tool.name == found.label for tool in tools):
            return Choice(found.label, confidence=found.probability, usage=usage)
        language = language_of(question, history)
        for tool in tools:
            if tool.name not in LABELS and (arguments := tool.from_question(question, language)) is not None:
                return Choice(tool.name, arguments, usage=usage)
        return Choice(None, confidence=found.probability, usage=usage)


def _words() -> Pipeline:
    letters = TfidfVectorizer(preprocessor=plain, analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True, min_df=2)
    words = TfidfVectorizer(preprocessor=plain, ngram_range=(1, 2), sublinear_tf=True, token_pattern=WORD)
    return make_pipeline(make_union(letters, words), _regression(WORDS_REGULARISATION))


def _cues() -> Pipeline:
    return make_pipeline(DictVectorizer(sparse=False), _regression(CUES_REGULARISATION))


def _regression(inverse_strength: float) -> OneVsRestClassifier:
    # liblinear's dual problem takes a twentieth of a second; lbfgs takes seconds, waiting for busy cores.
    return OneVsRestClassifier(
        LogisticRegression(C=inverse_strength, solver="liblinear", dual=True, tol=0.01, random_state=0)
    )


def _present(question: str) -> dict[str, float]:
    return dict.fromkeys(cues(question), 1.0)


def _probabilities(pipeline: Pipeline, features: object) -> dict[Label, float]:
    found: list[float] = pipeline.predict_proba([features])[0].tolist()
    labels: list[Label] = pipeline.classes_.tolist()
    return dict(zip(labels, found, strict=True))
