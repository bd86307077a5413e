"""Defines an answer's steps (what an assistant or a search did before its text), and cuts them to storage limits.

The data of steps is untrusted: it comes from tools and from imported files, and is stored only within limits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

MAX_STEPS = 32
"""Steps of an answer; later ones are not stored."""
MAX_STEP_BYTES = 131_072
"""Bytes of a step's data as JSON; a result that makes it larger is not stored."""
MAX_DEPTH = 24
"""Levels of objects and lists in a step's data."""
MAX_INTEGER = 2**63 - 1
"""Largest integer in a step's data: imports refuse larger ones, and an export must stay importable."""
MAX_NAME_CHARS = 200
"""Characters of a step's kind and name."""
REASONING = "reasoning"
"""Kind of the step with the model's reasoning."""
FILE_SEARCH = "file_search"
"""Kind of the step that searches collections of documents."""
STOPPED = "stopped"
"""Error code of a step during which the answer ended."""


class StepState(StrEnum):
    """The state of a step."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class Step:
    """One step of an answer, such as a call of a tool. A later report of the same `number` replaces the step."""

    number: int
    kind: str
    """`file_search`, `rewrite`, `route`, `tool`, `summary`, `search` or `reasoning`; `data` follows from it."""
    name: str
    """Name of the tool or model that the step uses, or the method of a search."""
    state: StepState
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)


def bounded(step: Step) -> Step:
    """Return a step of an answer, cut to the limits that this module sets for storage.

    A step that exceeds them loses its result and the texts of a search's paths, or all its data.
    """
    short = replace(step, kind=step.kind[:MAX_NAME_CHARS], name=step.name[:MAX_NAME_CHARS])
    for data in (step.data, _shortened(step.data)):
        if _is_plain(data, MAX_DEPTH) and len(encoded(data)) <= MAX_STEP_BYTES:
            return replace(short, data=data)
    return replace(short, data={})


def _shortened(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a step's data without its result, and with the paths of a search without their texts."""
    kept = {name: value for name, value in data.items() if name != "result"}
    if isinstance(paths := kept.get("paths"), list | tuple):
        kept["paths"] = [_without_text(each) for each in paths]
    return kept


def _without_text(path: Any) -> Any:
    return {name: value for name, value in path.items() if name != "text"} if isinstance(path, Mapping) else path


def ended(steps: Iterable[Step]) -> list[Step]:
    """Return an ended answer's steps: those still running become failed, with the error code `stopped`."""
    error = {"code": STOPPED, "message": "The answer ended during this step."}
    return [
        replace(each, state=StepState.FAILED, data={**each.data, "error": error})
        if each.state is StepState.RUNNING
        else each
        for each in steps
    ]


def encoded(data: Mapping[str, Any]) -> str:
    """Return a step's data as JSON in ASCII, the form in which the data is stored and its bytes are counted."""
    return json.dumps(data, separators=(",", ":"))


def step_bytes(steps: Iterable[Step]) -> int:
    """Return how many bytes the steps of an answer count in their owner's storage quota."""
    return sum(len(each.kind) + len(each.name) + len(encoded(each.data)) for each in steps)


def _is_plain(value: Any, levels: int) -> bool:
    """Return whether decoded JSON has at most `levels` levels of objects and lists, and no integer beyond 64 bits."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, int):
        return abs(value) <= MAX_INTEGER
    if not isinstance(value, list | tuple):
        return True
    return levels > 0 and all(_is_plain(each, levels - 1) for each in value)
