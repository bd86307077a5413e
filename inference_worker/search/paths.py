"""Keeps the tree of a search's paths, and converts paths to and from the records in the search's released steps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from inference_worker.search.events import ROOT, PathScore, Segment, SegmentEnd


@dataclass
class Path:
    """A path of a search: one continuation of its parent.

    Attributes:
        number: number of the path, from 1, in the order of continuations.
        parent: number of the path that it continues; `ROOT`: the prompt.
        origin: number of its first ancestor after the prompt, or its own.
        tokens: number of tokens of this continuation.
        length: number of tokens from the prompt's end to the path's end.
        token_ids: ids of the continuation's tokens; empty once the path was dropped.
        text: text of the continuation; "" once the path was dropped.
        ended: `STOP` or `LENGTH` if the path can't go on, else `None`.
        step_scores: scores by the verifier; `None`: not scored.
        score: aggregated score; `None`: missing or not a finite number.
        logprob: sum of the log probabilities of all tokens from the prompt's end; `None`: not known.
        result: result of the answer in normal form; `None`: none was found.
        rollout: what a greedy model writes after the path, by which the path is scored; it is no part of the path.
    """

    number: int
    parent: int
    origin: int
    tokens: int
    length: int
    token_ids: list[int]
    text: str
    ended: SegmentEnd | None
    step_scores: list[float] | None = None
    score: float | None = None
    logprob: float | None = None
    result: str | None = None
    rollout: list[Segment] = field(default_factory=list)

    @property
    def length_ahead(self) -> int:
        """Number of tokens from the prompt's end to the end of this path's rollout (its look-ahead)."""
        return self.length + sum(len(segment.token_ids) for segment in self.rollout)


class PathTree:
    """All paths of a search. Paths that can still be chosen, and their ancestors, have their tokens and texts."""

    def __init__(self, max_tokens: int) -> None:
        self.paths: dict[int, Path] = {}
        self.alive: list[Path] = []
        """Paths that can still be chosen, in the order of their numbers."""
        self._max_tokens = max_tokens

    @property
    def longest(self) -> int:
        """Number of tokens of the longest path that can still be chosen; 0 if there is none."""
        return max((path.length for path in self.alive), default=0)

    def add(self, number: int, parent: int, segment: Segment) -> Path:
        """Add a generated continuation `segment` of the path `parent` as the new path `number`, and return the path.

        A path that has as many tokens as the answer may have is marked as ended.
        """
        ended = segment.end if segment.end.final else None
        path = self._add(number, parent, len(segment.token_ids), ended)
        path.token_ids, path.text = segment.token_ids, segment.text
        if path.ended is None and path.length >= self._max_tokens:
            path.ended = SegmentEnd.LENGTH
        return path

    def _add(self, number: int, parent: int, tokens: int, ended: SegmentEnd | None) -> Path:
        before = self.paths.get(parent)
        origin, length = (number, 0) if before is None else (before.origin, before.length)
        path = self.paths[number] = Path(number, parent, origin, tokens, length + tokens, [], "", ended)
        return path

    def token_ids(self, number: int) -> list[int]:
        """Return the ids of all tokens of the path `number`, from the prompt's end to its own."""
        return [token for path in self._line(number) for token in path.token_ids]

    def texts(self, number: int) -> list[str]:
        """Return the texts of the continuations that make up the path `number`, from the prompt's end, in order."""
        return [path.text for path in self._line(number)]

    def _line(self, number: int) -> list[Path]:
        line: list[Path] = []
        while number != ROOT:
            line.append(self.paths[number])
            number = line[-1].parent
        return line[::-1]

    def forget_dropped(self, candidates: Iterable[Path]) -> None:
        """Free memory after a step: rollouts of its `candidates`, tokens and texts of those that can't be chosen."""
        kept = {path.number for path in self.alive}
        for path in candidates:
            if path.number not in kept:
                path.token_ids, path.text = [], ""
            path.rollout = []

    def records(self, candidates: Iterable[Path], *, texts: bool) -> list[dict[str, Any]]:
        """Return one JSON object for each of a step's `candidates`, from which `restore` adds the paths again.

        With `texts` also the texts of dropped paths are in them.
        """
        kept = {path.number for path in self.alive}
        return [_record(path, alive=path.number in kept, texts=texts) for path in candidates]

    def restore(self, records: Iterable[dict[str, Any]]) -> list[Path]:
        """Add the paths of an earlier attempt's step from their `records`, and return those that the step kept."""
        kept: list[Path] = []
        for record in records:
            ended = SegmentEnd(record["ended"]) if record["ended"] else None
            path = self._add(record["path"], record["parent"], record["tokens"], ended)
            path.score, path.result = record.get("score"), record.get("result")
            path.logprob = record.get("logprob")
            if "step_scores" in record:
                path.step_scores = [math.nan if score is None else score for score in record["step_scores"]]
            if record["alive"]:
                path.token_ids, path.text = record["token_ids"], record["text"]
                kept.append(path)
        return kept


def set_score(path: Path, score: PathScore, aggregated: float) -> None:
    """Store the verifier's scores of `path`: those of its steps, and `aggregated` as its own (`None` if not finite)."""
    path.step_scores = score.steps
    path.score = aggregated if math.isfinite(aggregated) else None


def _record(path: Path, *, alive: bool, texts: bool) -> dict[str, Any]:
    """Return a path as JSON. Scores that are no finite numbers are null."""
    record: dict[str, Any] = {"path": path.number, "parent": path.parent, "tokens": path.tokens}
    if alive or texts:
        record["text"] = path.text
    record |= {"ended": path.ended.value if path.ended else None, "alive": alive}
    if path.step_scores is not None:
        record["step_scores"] = [score if math.isfinite(score) else None for score in path.step_scores]
        if path.score is not None:
            record["score"] = path.score
    if path.logprob is not None:
        record |= {"logprob": path.logprob, "score": path.score}
    if path.result is not None:
        record["result"] = path.result
    if alive:
        record["token_ids"] = path.token_ids
    return record


def split_steps(text: str, separator: str) -> list[str]:
    """Split the text of a whole answer at `separator` into its steps.

    Each but the last ends with the separator, so that the steps joined are the text.
    """
    *ended, last = text.split(separator)
    return [*(step + separator for step in ended), last]


def merge_blank_steps(steps: Iterable[str]) -> list[str]:
    """Return the steps with those that have no visible character joined to the step before, or to the one after.

    The latter only if they come first.
    """
    merged: list[str] = []
    for step in steps:
        if merged and not (step.strip() and merged[-1].strip()):
            merged[-1] += step
        else:
            merged.append(step)
    return merged
