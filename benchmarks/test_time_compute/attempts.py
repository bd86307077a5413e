"""Asks the platform for answers to tasks, and records whether each is right, its tokens and its time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from openai.types.chat import ChatCompletion

from benchmarks.test_time_compute.methods import FIXED_VOTE, Way
from benchmarks.test_time_compute.platform import VERIFIER, Platform
from benchmarks.test_time_compute.task import Task
from benchmarks.test_time_compute.task_sets import conversation
from inference_worker.search.events import ROOT, SegmentEnd
from inference_worker.search.paths import Path
from inference_worker.search.results import extract_results
from inference_worker.search.voting import count_votes, wave_size
from router.messages import CONFIDENCE


@dataclass(frozen=True)
class Attempt:
    """One answer to a task.

    Attributes:
        generated: tokens that the model generated, those of paths that were not chosen included.
        scored: tokens that the verifier read.
        seconds: time from the request to the answer.
        stopped: of a vote of all N, the vote of its first answers after which self-consistency would have stopped.
    """

    task: Task
    way: Way
    right: bool
    generated: int
    scored: int
    seconds: float
    stopped: StoppedVote | None = None


@dataclass(frozen=True)
class StoppedVote:
    """The vote of the first `answers` of a task's answers, and whether its result is right."""

    answers: int
    right: bool


def attempt(platform: Platform, task: Task, way: Way, temperature: float, seed: int) -> Attempt:
    """Ask the platform for an answer to `task`, and check it.

    Raises:
        openai.OpenAIError: the platform refused or failed the request.
    """
    began = time.perf_counter()
    answer = platform.client.chat.completions.create(
        model=platform.model,
        messages=conversation(task),  # type: ignore[arg-type]
        seed=seed,
        **way.options(task, temperature),
    )
    seconds = time.perf_counter() - began
    generated, scored = used_tokens(answer)
    texts = [choice.message.content or "" for choice in answer.choices]
    if way.method != FIXED_VOTE:
        return Attempt(task, way, task.is_right(texts[0]), generated, scored, seconds)
    right = task.is_right(winner(task, texts))
    stopped = stopped_vote(task, texts)
    return Attempt(task, way, right, generated, scored, seconds, stopped)


def used_tokens(answer: ChatCompletion) -> tuple[int, int]:
    """Return the tokens that were generated for an answer, and those that the verifier read."""
    assert answer.usage is not None
    generated, scored = answer.usage.completion_tokens, 0
    for part in (answer.usage.model_extra or {}).get("parts") or []:
        if part["model"] == VERIFIER:
            scored += part["prompt_tokens"]
        else:
            generated += part["completion_tokens"]
    return generated, scored


def winner(task: Task, answers: Sequence[str]) -> str:
    """Return the first of the answers with the most frequent result; the first answer if none has a result."""
    votes = count_votes(_paths(task, answers), weighted=False)
    return votes[0].paths[0].text if votes else answers[0]


def stopped_vote(task: Task, answers: Sequence[str]) -> StoppedVote:
    """Return the vote of the first answers after which self-consistency stops, in waves as in a search."""
    count = sum(waves_of(_paths(task, answers), CONFIDENCE))
    return StoppedVote(count, task.is_right(winner(task, answers[:count])))


def waves_of(paths: Sequence[Path], confidence: float) -> list[int]:
    """Return the sizes of the waves in which a vote of all `paths` is generated until it stops."""
    waves, count = list[int](), 0
    while wave := wave_size(count_votes(paths[:count], weighted=False), count, len(paths) - count, confidence):
        waves.append(wave)
        count += wave
    return waves


def _paths(task: Task, answers: Sequence[str]) -> list[Path]:
    return voting_paths(extract_results(answers, task.family.extraction), answers)


def voting_paths(results: Sequence[str | None], answers: Sequence[str]) -> list[Path]:
    """Return the paths of whole answers with these results."""
    return [
        Path(number, ROOT, number, 0, 0, [], text, SegmentEnd.STOP, result=result)
        for number, (text, result) in enumerate(zip(answers, results, strict=True), start=1)
    ]
