"""The reasoning of an answer as the one step that the chat stores."""

from __future__ import annotations

import pytest

from chat_ui.history.steps import MAX_STEP_BYTES, Step, StepState, encoded
from infra.web_app.reasoning_steps import MAX_BYTES, ReasoningSteps


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_growing_reasoning_is_reported_at_intervals_and_at_its_end() -> None:
    clock = Clock()
    reasoning = ReasoningSteps(clock)
    first = reasoning.add("a")
    clock.now = 0.5
    assert reasoning.add("b") is None
    clock.now = 1.5
    second, last = reasoning.add("c"), reasoning.end()
    assert first == Step(0, "reasoning", "", StepState.RUNNING, {"text": "a", "seconds": 0.0})
    assert second == Step(0, "reasoning", "", StepState.RUNNING, {"text": "abc", "seconds": 1.5})
    assert last == Step(0, "reasoning", "", StepState.DONE, {"text": "abc", "seconds": 1.5})
    assert (reasoning.end(), reasoning.add("d")) == (None, None)


def test_it_follows_the_steps_before_it() -> None:
    reasoning = ReasoningSteps(Clock())
    assert reasoning.end() is None
    reasoning.follow(Step(3, "tool", "weather", StepState.DONE))
    step = reasoning.add("a")
    assert step is not None
    assert step.number == 4


@pytest.mark.parametrize("character", ["a", "ż", "👍"])
def test_a_long_text_is_cut_to_what_a_step_can_have(character: str) -> None:
    clock = Clock()
    reasoning = ReasoningSteps(clock)
    for clock.now in map(float, range(30)):
        reasoning.add(character * (MAX_BYTES // 20))
    step = reasoning.end()
    assert step is not None
    assert step.data["cut"]
    assert MAX_BYTES / 2 < len(encoded(step.data)) <= MAX_STEP_BYTES
