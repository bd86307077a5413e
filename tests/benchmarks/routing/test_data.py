"""The evaluation prompts are not the training prompts, nor nearly so: scores are of questions that are new."""

from __future__ import annotations

from pathlib import Path

import pytest

from assistant.routing.labelled_prompts import read_prompts
from benchmarks.routing import follow_up_set
from tests.assistant.routing.similarity import most_similar

DATA = follow_up_set.FOLLOW_UPS.parent
MOST_ALIKE = 0.7


def nearly_alike(texts: list[str], others: list[str]) -> list[int]:
    """Return the line numbers of texts that resemble one of `others`; the texts themselves stay unseen."""
    return [line for line, text in enumerate(texts, start=1) if most_similar(text, others)[0] > MOST_ALIKE]


def alone(path: Path | None = None) -> list[str]:
    prompts = read_prompts() if path is None else read_prompts(path)
    return [each.text for each in prompts if not each.history]


@pytest.mark.parametrize("name", ["evaluation", "development"])
def test_no_prompt_that_is_scored_is_nearly_a_training_prompt(name: str) -> None:
    assert nearly_alike(alone(DATA / f"{name}.jsonl"), alone()) == []


@pytest.mark.parametrize("path", [follow_up_set.FOLLOW_UPS, follow_up_set.TRAINING_FOLLOW_UPS])
def test_no_evaluation_follow_up_is_nearly_one_of_another_set(path: Path) -> None:
    """With the turn before it: short follow-ups such as "and tomorrow?" are alike by nature."""
    known, new = (
        [f"{each.history[-1].content} {each.text}" for each in follow_up_set.read_follow_ups(file)]
        for file in (path, follow_up_set.EVALUATION_FOLLOW_UPS)
    )
    assert nearly_alike(new, known) == []
