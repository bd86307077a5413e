"""The classifier: trained in a second, right on prompts of either language, and never sure without reason."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

from assistant.routing.classifier import ClassifierRouter, ToolClassifier
from assistant.routing.labelled_prompts import LABELS, LabelledPrompt, read_prompts
from assistant.routing.rule_rewriter import stand_alone
from tests.fakes.assistant import NamedTool, ScriptedModels, named_tools


@pytest.fixture(scope="module")
def prompts() -> list[LabelledPrompt]:
    return read_prompts()


@pytest.fixture(scope="module")
def classifier(prompts: list[LabelledPrompt]) -> ToolClassifier:
    return ToolClassifier(prompts, stand_alone)


def test_training_takes_little_time(prompts: list[LabelledPrompt]) -> None:
    started = time.process_time()
    ToolClassifier(prompts, stand_alone)
    assert time.process_time() - started < 2  # 0.5 s where nothing else runs


@pytest.mark.parametrize(
    ("question", "label"),
    [
        ("Sketch a hippo in a bathtub", "image"),
        ("namaluj hipopotama w wannie", "image"),
        ("Is it going to snow in Turin on Monday?", "weather"),
        ("czy w poniedziałek w Turynie spadnie śnieg", "weather"),
        ("who was Alan Turing", "wikipedia"),
        ("Kim był Alan Turing?", "wikipedia"),
        ("17 * 23 - 4", "math"),
        ("oblicz pochodną cos(x)", "math"),
        ("what does the uploaded contract say about liability?", "documents"),
        ("co jest napisane w załączonej umowie o odpowiedzialności?", "documents"),
        ("Write a story about a snowstorm", "none"),
        ("napisz bajkę o burzy śnieżnej", "none"),
        ("", "none"),
        ("asdf qwer", "none"),
    ],
)
def test_plain_questions(classifier: ToolClassifier, question: str, label: str) -> None:
    assert classifier.classify(question).label == label


def test_long_texts_take_little_time(classifier: ToolClassifier) -> None:
    started = time.process_time()
    classifier.classify("what is the weather in " * 100_000)
    assert time.process_time() - started < 1


def test_cross_validation(prompts: list[LabelledPrompt]) -> None:
    """The evaluation by prompts of other authors is `benchmarks.routing`; this notices a broken feature."""
    tools = np.array([each.tool for each in prompts])
    right: Counter[str] = Counter()
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(tools, tools):
        classifier = ToolClassifier([prompts[i] for i in train], stand_alone)
        for prompt in (prompts[i] for i in test):
            label = classifier.classify(stand_alone(prompt.text, prompt.turns)).label
            right[prompt.lang] += label == prompt.tool
            right[prompt.tool] += label == prompt.tool
    totals = Counter(each.lang for each in prompts) + Counter(each.tool for each in prompts)
    assert right["en"] / totals["en"] >= 0.92
    assert right["pl"] / totals["pl"] >= 0.88
    assert all(right[label] / totals[label] >= 0.75 for label in LABELS)


def test_probabilities_are_calibrated(prompts: list[LabelledPrompt]) -> None:
    """Of the tools chosen by a sure classifier more are right than of those chosen by an unsure one."""
    classifier = ToolClassifier(prompts[::2], stand_alone)
    sure, unsure = [], []
    for prompt in prompts[1::2]:
        verdict = classifier.classify(stand_alone(prompt.text, prompt.turns))
        if verdict.label != "none":
            (sure if verdict.probability > 0.8 else unsure).append(verdict.label == prompt.tool)
    assert np.mean(sure) > 0.95
    assert np.mean(sure) >= np.mean(unsure)


async def choose(classifier: ToolClassifier, question: str, tools: Sequence[NamedTool]) -> str | None:
    models = ScriptedModels()
    choice = await ClassifierRouter(classifier).choose(question, [], tools, models)
    assert not models.requests
    return choice.tool


async def test_the_router_chooses_the_tool(classifier: ToolClassifier) -> None:
    assert await choose(classifier, "Draw a badger", named_tools()) == "image"
    assert await choose(classifier, "thanks a lot", named_tools()) is None


async def test_a_tool_that_is_off_is_not_chosen(classifier: ToolClassifier) -> None:
    off = [tool for tool in named_tools() if tool.name != "image"]
    assert await choose(classifier, "Draw a badger", off) is None


async def test_tools_without_label_are_chosen_by_their_own_rule(classifier: ToolClassifier) -> None:
    page = NamedTool("web_page", question_words="https://")
    tools = [*named_tools(), page]
    choice = await ClassifierRouter(classifier).choose("Hm, https://example.org", [], tools, ScriptedModels())
    assert (choice.tool, choice.arguments["language"], choice.confidence) == ("web_page", "en", None)
    assert await choose(classifier, "hm, example.org", tools) is None
