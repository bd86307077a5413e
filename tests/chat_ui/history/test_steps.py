"""Limits of steps, and their end."""

from __future__ import annotations

from typing import Any

import pytest

from chat_ui.history.steps import MAX_DEPTH, MAX_STEP_BYTES, Step, StepState, bounded, encoded, ended, step_bytes


def step(state: StepState = StepState.DONE, **data: Any) -> Step:
    return Step(0, "tool", "weather", state, data)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_steps_within_the_limits_are_unchanged() -> None:
    each = step(arguments={"place": "Gdańsk"}, result={"type": "weather", "days": nested(MAX_DEPTH - 3)})
    assert bounded(each) == each


@pytest.mark.parametrize("result", ["x" * MAX_STEP_BYTES, "ż" * (MAX_STEP_BYTES // 6), nested(MAX_DEPTH), 2**64])
def test_results_beyond_the_limits_are_dropped(result: Any) -> None:
    assert bounded(step(arguments={"place": "a"}, result=result)).data == {"arguments": {"place": "a"}}


def test_texts_of_paths_beyond_the_limits_are_dropped() -> None:
    paths = [{"path": 1, "score": 0.5, "text": "ż" * (MAX_STEP_BYTES // 6)}, 2]
    assert bounded(step(paths=paths, chosen=1)).data == {"paths": [{"path": 1, "score": 0.5}, 2], "chosen": 1}


def test_other_data_beyond_the_limits_is_dropped_too() -> None:
    each = bounded(Step(0, "k" * 1_000, "n" * 1_000, StepState.DONE, {"arguments": nested(100_000)}))
    assert (len(each.kind), len(each.name), each.data) == (200, 200, {})


def test_running_steps_of_an_ended_answer_have_failed() -> None:
    done, failed = step(), step(StepState.FAILED, error={"code": "unavailable"})
    found = ended([done, failed, step(StepState.RUNNING, arguments={"place": "a"})])
    assert found[:2] == [done, failed]
    assert found[2].state is StepState.FAILED
    assert found[2].data["arguments"] == {"place": "a"}
    assert found[2].data["error"]["code"] == "stopped"


def test_bytes_are_those_of_the_stored_form() -> None:
    each = step(place="ż")
    assert step_bytes([each, each]) == 2 * (len("tool") + len("weather") + len(encoded(each.data)))
