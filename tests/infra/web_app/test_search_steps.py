"""Steps of a search as the chat stores them."""

from __future__ import annotations

from typing import Any

from chat_ui.history.steps import Step, StepState
from infra.web_app.search_steps import TEXT_CHARS, SearchSteps


def step(number: int, state: StepState, **data: Any) -> Step:
    return Step(number, "search", "beam_search", state, data)


def path(number: int, parent: int = 0, *, ended: str | None = None, **more: Any) -> dict[str, Any]:
    """A path as a worker reports it."""
    alive = {"alive": True, "token_ids": [5, 6], "step_scores": [0.5]}
    return {"path": number, "parent": parent, "ended": ended, "tokens": 2, "text": f"{number} "} | alive | more


def kept(number: int, text: str, tokens: int, ended: str | None = None) -> dict[str, Any]:
    """The same path as it is stored."""
    return {"path": number, "ended": ended, "alive": True, "text": text, "tokens": tokens}


def test_each_step_replaces_the_one_before_and_keeps_answers_and_what_was_used() -> None:
    search = SearchSteps()
    steps = [
        step(2, StepState.RUNNING, paths=3),
        step(2, StepState.DONE, paths=[path(1), path(2, ended="stop"), path(3)], generated=6, scored=40),
        step(3, StepState.RUNNING, paths=2),
        step(3, StepState.DONE, paths=[path(4, 1), path(5, 1, ended="length")], generated=10, scored=80),
        step(4, StepState.DONE, paths=[path(6, 4)], generated=12, scored=90, chosen=2, votes=[["7", 2]]),
    ]
    found = [search.latest(each) for each in steps]
    assert {(each.number, each.kind, each.name) for each in found} == {(2, "search", "beam_search")}
    assert [each.state for each in found] == [each.state for each in steps]
    answers = [kept(2, "2 ", 2, "stop"), kept(5, "1 5 ", 4, "length")]
    assert [each.data for each in found] == [
        {"step": 1, "paths": 3},
        {"step": 1, "paths": [kept(1, "1 ", 2), answers[0], kept(3, "3 ", 2)], "generated": 6, "scored": 40},
        {"step": 2, "paths": 2, "generated": 6, "scored": 40},
        {"step": 2, "paths": [answers[0], kept(4, "1 4 ", 4), answers[1]], "generated": 10, "scored": 80},
        {"step": 3, "paths": [*answers, kept(6, "1 4 6 ", 6)], "generated": 12, "scored": 90}
        | {"chosen": 2, "votes": [["7", 2]]},
    ]


def test_long_texts_are_cut() -> None:
    paths = [path(1, text="a" * TEXT_CHARS), path(2), "not a path"]
    found = SearchSteps().latest(step(0, StepState.DONE, paths=paths)).data["paths"]
    assert [each["text"] for each in found] == ["a" * (TEXT_CHARS // 2), "2 "]


def test_a_failed_step_and_one_without_paths_are_kept() -> None:
    search = SearchSteps()
    assert search.latest(step(0, StepState.DONE, paths=[])).data == {"step": 1, "paths": []}
    failed = {"error": {"code": "unavailable"}}
    assert search.latest(step(1, StepState.FAILED, **failed)).data == {"step": 2} | failed
