"""A resumed answer equals the uninterrupted one: the real model, killed at many points.

With a worker's text processing and engine, on one kind of machine, with activations and sums in float32.
`HEADRACE_KILL_POINTS` is the number of points tried for each answer.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inference_worker.engine.engine import Engine
from inference_worker.engine_protocol import TokenEvent
from inference_worker.settings import EngineSettings
from inference_worker.tokenizer.tokenizer_files import read_text_files
from inference_worker.worker.text.model_limits import ModelLimits
from inference_worker.worker.text.output_text import OutputText
from inference_worker.worker.text.processor import TextProcessor
from router.messages import ChatPrompt, Grammar, GrammarKind, Job, SamplingParams, TextOptions, TextPrompt
from tests.fakes.jobs import make_job

pytestmark = pytest.mark.model

KILL_POINTS = int(os.environ.get("HEADRACE_KILL_POINTS", "1"))
TOKENS = 12


def job(name: str, sampling: dict[str, Any], **fields: Any) -> Job:
    prompt = fields.pop("prompt", TextPrompt("One, two, three. One, two, three, four."))
    return make_job(
        name,
        prompt=prompt,
        sampling=SamplingParams(**{"seed": 7, "max_tokens": TOKENS, "ignore_eos": True} | sampling),
        **fields,
    )


JOBS = [
    job("greedy", {"temperature": 0.0, "logprobs": 2}),
    job("penalised", {"temperature": 0.0, "repetition_penalty": 1.2, "frequency_penalty": 0.5, "min_tokens": 4}),
    job("seeded", {"temperature": 0.9, "top_p": 0.95, "logprobs": 0}, n=2),
    job(
        "stopped", {"temperature": 1.0, "top_k": 40, "presence_penalty": 0.5}, text=TextOptions(stop=["e, ", "\n\n\n"])
    ),
    job(
        "object",
        {"temperature": 0.8, "ignore_eos": False},
        prompt=ChatPrompt(messages=[{"role": "user", "content": "A small JSON object, please 🙂"}]),
        grammar=Grammar(kind=GrammarKind.JSON_OBJECT),
    ),
]


@dataclass
class Said:
    """What a client has of one choice."""

    ids: list[int] = field(default_factory=list)
    text: str = ""
    logprobs: list[Any] = field(default_factory=list)
    end: tuple[Any, Any] | None = None


class Run:
    """One attempt at a job: events in, what is released out."""

    def __init__(self, text: TextProcessor, job: Job) -> None:
        self.job = job
        self.outputs: list[OutputText] = [text.open_output(job, choice, [0]) for choice in range(job.n)]
        self.said = [Said() for _ in range(job.n)]

    def push(self, event: TokenEvent) -> None:
        release = self.outputs[event.choice].push(event)
        if release is None:
            return
        said = self.said[event.choice]
        said.ids += release.ids
        said.text += release.text
        said.logprobs += release.logprobs or []
        said.end = (release.finish, release.stopped_by) if release.finish else None


async def run(engine: Engine, text: TextProcessor, jobs: list[Job]) -> tuple[list[Run], dict[str, list[TokenEvent]]]:
    """All of them at once; also every event of each."""
    limits = ModelLimits(engine.ready().max_model_len, engine.ready().vocab_size)
    runs = {job.id: Run(text, job) for job in jobs}
    events: dict[str, list[TokenEvent]] = {job.id: [] for job in jobs}
    for each in jobs:
        request = await text.prepare(each, each.id, limits)
        if set(range(each.n)) - set(each.ended):
            engine.add(request)
    while engine.has_work():
        for event in engine.step():
            events[event.request].append(event)
            runs[event.request].push(event)
            if runs[event.request].outputs[event.choice].finished:
                engine.abort(event.request, event.choice)
    assert engine.failures() == []
    return list(runs.values()), events


def killed(text: TextProcessor, whole: Job, events: list[TokenEvent], at: int) -> tuple[Job, Run]:
    """The job as it goes on when its worker dies after `at` events, and what the client has by then."""
    first = Run(text, whole)
    for event in events[:at]:
        first.push(event)
    delivered = [said.ids for said in first.said]
    ended = [choice for choice, said in enumerate(first.said) if said.end]
    rest = msgspec.structs.replace(
        whole,
        id=f"{whole.id}@{at}",
        cache_salt=f"salt-{at}",
        delivered=delivered if any(delivered) else [],
        ended=ended,
    )
    return rest, first


async def test_a_resumed_answer_is_the_uninterrupted_one(model_file: Path) -> None:
    settings = EngineSettings(
        model=str(model_file), dtype="float32", quantization="none", kv_cache_dtype="float32", max_model_len=256
    )
    engine, text = Engine.from_settings(settings), TextProcessor.of(read_text_files(model_file))
    try:
        wholes, events = await run(engine, text, JOBS)
        resumed: list[tuple[Job, Run, Run]] = []
        for whole in wholes:
            count = len(events[whole.job.id])
            points = sorted({1 + (number + 1) * (count - 1) // (KILL_POINTS + 1) for number in range(KILL_POINTS)})
            resumed += [(*killed(text, whole.job, events[whole.job.id], at), whole) for at in points]
        rests, _ = await run(engine, text, [rest for rest, _, _ in resumed])
        for (rest, first, whole), second in zip(resumed, rests, strict=True):
            for choice in range(rest.n):
                before, after, expected = first.said[choice], second.said[choice], whole.said[choice]
                assert before.ids + after.ids == expected.ids, rest.id
                assert before.text + after.text == expected.text, rest.id
                assert (after.end or before.end) == expected.end, rest.id
                told = [token.chosen.logprob for token in before.logprobs + after.logprobs]
                assert told == pytest.approx([token.chosen.logprob for token in expected.logprobs], abs=1e-3)
    finally:
        text.close()
