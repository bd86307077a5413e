"""Combines the steps of a test-time search into the one step that the chat stores and shows, with all candidates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chat_ui.history.steps import Step, StepState

SEARCH = "search"
"""Kind of a search's steps."""
TEXT_CHARS = 64_000
"""Characters of the texts of all candidates together, in equal parts; the rest of a longer text is cut off."""
_NOT_STORED = ("parent", "token_ids", "step_scores")


class SearchSteps:
    """The steps of one search. Each becomes a step of the same number, which replaces the one before it.

    A worker reports the paths of a step alone, each with the text that the step added to it.
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._used: Mapping[str, Any] = {}
        self._answers: list[dict[str, Any]] = []
        """Paths that reached the end in an earlier step."""
        self._unfinished: dict[Any, dict[str, Any]] = {}
        """Other paths of the step before, by number."""

    def latest(self, step: Step) -> Step:
        """Combine one more step of the search with those before.

        Return the step to show, with all answers and latest paths.
        """
        if self._first is None:
            self._first = step.number
        data = {**step.data, "step": step.number - self._first + 1}
        if step.state is StepState.RUNNING:
            data = {**self._used, **data}
        elif step.state is StepState.DONE:
            self._used = {name: data[name] for name in ("generated", "scored") if name in data}
            paths = data.get("paths")
            data["paths"] = self._candidates(paths if isinstance(paths, list) else [])
        return Step(self._first, step.kind, step.name, step.state, data)

    def _candidates(self, paths: list[Any]) -> list[dict[str, Any]]:
        latest = [self._whole(each) for each in paths if isinstance(each, dict)]
        found = self._answers + latest
        self._answers = [each for each in found if each.get("ended")]
        self._unfinished = {each.get("path"): each for each in latest if not each.get("ended")}
        return [{**each, "text": each["text"][: TEXT_CHARS // len(found)]} for each in found]

    def _whole(self, path: dict[str, Any]) -> dict[str, Any]:
        """Return a path with its whole text and length."""
        before = self._unfinished.get(path.get("parent"), {"text": "", "tokens": 0})
        whole = {name: value for name, value in path.items() if name not in _NOT_STORED}
        return {
            **whole,
            "text": before["text"] + path.get("text", ""),
            "tokens": before["tokens"] + path.get("tokens", 0),
        }
