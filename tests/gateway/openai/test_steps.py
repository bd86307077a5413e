"""Steps as responses show them: without what they used."""

from __future__ import annotations

from gateway.openai.steps import AnswerStep
from tests.contract.examples import STEPS


def test_a_step_is_shown_without_its_usage() -> None:
    shown = AnswerStep.of(STEPS[1]).model_dump()
    assert shown == {
        "number": 1,
        "kind": "tool",
        "name": "weather",
        "state": "failed",
        "data": STEPS[1].data,
    }
