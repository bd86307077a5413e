"""Calls that run in steps: they pause, end, fail and are stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from inference_worker.engine.images.stepped_call import SteppedCall


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def test_a_call_pauses_after_each_step_and_returns(thread: ThreadPoolExecutor) -> None:
    steps: list[int] = []

    def call(pause: Callable[[], None]) -> str:
        for number in range(2):
            steps.append(number)
            pause()
        return "done"

    stepped = SteppedCall(thread, call)
    assert steps == []
    stepped.advance()
    assert (steps, stepped.ended) == ([0], False)
    stepped.advance()
    stepped.advance()
    assert (steps, stepped.ended, stepped.result) == ([0, 1], True, "done")
    stepped.advance()


def test_what_a_call_raises_is_raised_by_its_result(thread: ThreadPoolExecutor) -> None:
    def call(pause: Callable[[], None]) -> str:
        raise ValueError("no")

    stepped = SteppedCall(thread, call)
    stepped.advance()
    assert stepped.ended
    with pytest.raises(ValueError, match="no"):
        _ = stepped.result


@pytest.mark.parametrize("steps", [0, 1])
def test_a_stopped_call_goes_no_further_and_the_next_one_runs(thread: ThreadPoolExecutor, steps: int) -> None:
    reached: list[int] = []

    def call(pause: Callable[[], None]) -> str:
        for number in range(9):
            reached.append(number)
            pause()
        return "done"

    stepped = SteppedCall(thread, call)
    for _ in range(steps):
        stepped.advance()
    stepped.stop()
    assert (stepped.ended, len(reached)) == (True, steps)
    with pytest.raises(RuntimeError):
        _ = stepped.result
    following = SteppedCall(thread, lambda _pause: 5)
    following.advance()
    assert following.result == 5
