"""Scores of routers."""

from __future__ import annotations

import pytest

from assistant.routing.labelled_prompts import LabelledPrompt
from assistant.routing.router import Choice
from benchmarks.routing.scoring import RoutingScore


def test_accuracy_recall_confusion_and_times() -> None:
    score = RoutingScore()
    drawn = LabelledPrompt(lang="en", text="draw", tool="image")
    plain = LabelledPrompt(lang="en", text="hi", tool="none")
    for prompt, chosen, seconds in (
        (drawn, Choice("image"), 0.01),
        (drawn, Choice(None), 0.02),
        (plain, Choice(None), 0.03),
        (plain, None, 0.04),
    ):
        score.add(prompt, chosen, seconds)
    score.add(plain, Choice(None, embedding="late"), 0.025)
    assert score.accuracy == 0.6
    assert (score.recall("image"), score.recall("none"), score.recall("math")) == (0.5, pytest.approx(2 / 3), None)
    row = score.row()
    assert row["decision_ms_p50"] == pytest.approx(25)
    assert (row["prompts"], row["late"], row["failed"]) == (5, 1, 1)
    assert [(prompt.text, label) for prompt, label in score.wrong] == [("draw", "none"), ("hi", "failed")]
    (image,) = (each for each in score.confusion_rows() if each["label"] == "image")
    assert (image["chose_image"], image["chose_none"], image["chose_failed"]) == (1, 1, 0)


def test_an_empty_score() -> None:
    assert RoutingScore().accuracy == 0
