"""Classifies texts by a text classification model: scores their pieces in jobs, and reads the labels."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gateway.jobs.generation_services import GenerationServices
from gateway.moderation.categories import highest
from gateway.moderation.pieces import pieces
from gateway.moderation.rules import ModerationRules
from router.messages import (
    Cancelled,
    Failed,
    Finished,
    Job,
    SamplingParams,
    Scored,
    ScorePrompt,
    TextOptions,
    Usage,
)
from router.model_registry import ModelInfo
from router.producer.errors import JobCancelled, JobFailed
from router.producer.recovery_events import JobQueued
from router.producer.reply_reader import ReplyReader
from router.usage_arithmetic import total

PIECES_PER_JOB = 256
TOKENS_PER_JOB = 250_000
"""Most pieces, and most tokens, of one job of a check."""


def score_prompt(texts: Sequence[str], param: str = "input") -> ScorePrompt:
    """Return the prompt of a score job that classifies `texts`, each alone."""
    return ScorePrompt(contexts=[""], candidates=list(texts), param=param)


def categories_of(labels: Sequence[str], scores: Sequence[Sequence[float]], rules: ModerationRules) -> dict[str, float]:
    """Return the highest score of each category over the pieces of a text, whose labels have the `scores`."""
    meaning = rules.meaning(labels)
    return highest(
        (category, score)
        for piece in scores
        for category, score in zip(meaning, piece, strict=True)
        if category is not None
    )


@dataclass(frozen=True)
class Classification:
    """The scores of texts by category, and what the jobs used."""

    scores: list[dict[str, float]]
    usage: Usage


def check_jobs(texts: Sequence[str], model: ModelInfo, parent: Job, first: int) -> list[Job]:
    """Return the child jobs of `parent` that classify `texts`, numbered from `first`."""
    split = [piece for text in texts for piece in pieces(text, model)]
    size = max(1, min(PIECES_PER_JOB, TOKENS_PER_JOB // max(1, model.max_model_len)))
    groups = [split[start : start + size] for start in range(0, len(split), size)]
    return [
        msgspec.structs.replace(
            parent,
            id=f"{parent.id}-m{number}",
            model=model.name,
            parent=parent.id,
            depth=1,
            prompt=score_prompt(group),
            sampling=SamplingParams(seed=0),
            text=TextOptions(),
            created=time.time(),
            **_OF_AN_ANSWER,
        )
        for number, group in enumerate(groups, first)
    ]


_OF_AN_ANSWER: Mapping[str, object] = {
    "grammar": None,
    "n": 1,
    "search": None,
    "copy_number": 0,
    "delivered": [],
    "ended": [],
    "embedded": [],
    "cached_tokens": 0,
    "texts": [],
    "text_positions": [],
    "steps": [],
}
"""Fields of a job that its checks do not take over."""


async def classify(
    services: GenerationServices, texts: Sequence[str], model: ModelInfo, jobs: Sequence[Job], rules: ModerationRules
) -> Classification:
    """Run `jobs`, the `check_jobs` of `texts`, one after another; return the scores of the texts by category.

    Raises:
        GenerationError, PublishError: A job failed, or was not queued.
    """
    scores: list[list[float]] = []
    used = []
    for job in jobs:
        found, usage = await _run(services, job)
        scores += found
        used.append(usage)
    rest = iter(scores)
    by_text = [[next(rest) for _ in pieces(text, model)] for text in texts]
    return Classification([categories_of(model.labels, each, rules) for each in by_text], total(used))


async def _run(services: GenerationServices, job: Job) -> tuple[list[list[float]], Usage]:
    """Publish a score job in its turn; return the scores of each candidate's labels, in order, and what they used."""
    [opened] = services.inbox.open([job])
    reader = ReplyReader(services.replies, [opened])
    entry = services.publish_queue.enter(job)
    scores: dict[int, list[float]] = {}
    try:
        await entry.wait()
        await services.bus.publish_job(job, opened.headers)
        opened.recovery.receive(JobQueued(), time.monotonic())
        while True:
            for _, reply in await reader.arrivals():
                entry.charge(reply)
                match reply:
                    case Scored():
                        scores.update(zip(reply.indexes, reply.step_scores, strict=True))
                    case Finished():
                        return [scores[index] for index in sorted(scores)], reply.usage
                    case Failed():
                        raise JobFailed(reply)
                    case Cancelled():
                        raise JobCancelled
    finally:
        services.inbox.close([opened], cancel=entry.released)
        entry.leave()
