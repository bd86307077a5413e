"""The default model, 135M parameters at temperature 1, calls as it must: the right functions, valid arguments."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest

from inference_worker.engine import Engine
from inference_worker.settings import EngineSettings
from inference_worker.text.output_text import Release
from inference_worker.text.processor import Limits, TextProcessor
from inference_worker.text.tokenizer_files import read_text_files
from router.messages import ChatPrompt, Grammar, GrammarKind, Job, SamplingParams, ToolChoice, ToolMode, joined_calls

pytestmark = pytest.mark.model

SCHEMAS: dict[str, dict[str, Any]] = {
    "weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 20},
            "unit": {"enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
        },
        "required": ["city", "unit"],
    },
    "search": {
        "type": "object",
        "properties": {
            "query": {"$ref": "#/$defs/Short"},
            "filters": {"type": "array", "items": {"$ref": "#/$defs/Filter"}, "maxItems": 2},
        },
        "required": ["query", "filters"],
        "additionalProperties": False,
        "$defs": {
            "Short": {"type": "string", "maxLength": 20},
            "Filter": {
                "type": "object",
                "properties": {"field": {"enum": ["author", "year"]}, "value": {"type": ["integer", "boolean"]}},
                "required": ["field", "value"],
            },
        },
    },
    "now": {"type": "object", "properties": {}},
}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"Do {name}.", "parameters": schema}}
    for name, schema in SCHEMAS.items()
]
ANSWER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


class Said(NamedTuple):
    text: str
    calls: list[tuple[str, str, str]]
    finish: str | None


class Bench:
    """The text side and the engine, without a queue between them."""

    def __init__(self, model: Path) -> None:
        settings = EngineSettings(model=str(model), max_model_len=1024, max_num_seqs=16, threads=1)
        self.text = TextProcessor.of(read_text_files(model))
        self.engine = Engine.from_settings(settings)
        self.limits = Limits(1024, self.engine.ready().vocab_size)

    def run(self, jobs: list[Job]) -> list[Said]:
        outputs = {(job.id, choice): self.text.open(job, choice) for job in jobs for choice in range(job.n)}
        releases: dict[tuple[str, int], list[Release]] = {key: [] for key in outputs}
        for job in jobs:
            self.engine.add(asyncio.run(self.text.prepare(job, job.id, self.limits)))
        while not all(output.finished for output in outputs.values()):
            for event in self.engine.step():
                key = event.request, event.choice
                release = outputs[key].push(event)
                releases[key] += [release] if release is not None else []
                if outputs[key].finished and event.finish_reason is None:
                    self.engine.abort(*key)
            assert not self.engine.failures()
        return [_said(parts) for parts in releases.values()]


def _said(releases: list[Release]) -> Said:
    calls = joined_calls(call for release in releases for call in release.calls or ())
    text = "".join(release.text for release in releases)
    return Said(text, [(call.id, call.name, call.args) for call in calls], releases[-1].finish)


@pytest.fixture(scope="module")
def bench(model_file: Path) -> Iterator[Bench]:
    made = Bench(model_file)
    yield made
    made.text.close()


def job(choice: ToolChoice, seed: int, n: int = 1, max_tokens: int = 200, **fields: Any) -> Job:
    messages = [{"role": "user", "content": "What is the weather in Paris, and who wrote Emma?"}]
    return Job(
        id=f"job-{choice}-{seed}",
        model="m",
        tenant="t",
        reply_to="g",
        created=0,
        deadline=1,
        prompt=ChatPrompt(messages=messages, tools=TOOLS, tool_choice=choice),
        sampling=SamplingParams(seed=seed, temperature=1.0, max_tokens=max_tokens),
        n=n,
        **fields,
    )


def valid(name: str, arguments: str) -> bool:
    jsonschema.validate(json.loads(arguments), SCHEMAS[name])
    return True


def test_a_call_that_must_be_is_valid(bench: Bench) -> None:
    named = [ToolChoice(mode=ToolMode.REQUIRED, names=[name], parallel=False) for name in SCHEMAS]
    one = ToolChoice(mode=ToolMode.REQUIRED, parallel=False)
    some = ToolChoice(mode=ToolMode.REQUIRED, names=["now", "search"])
    choices = [choice for choice in (*named, one, some) for _ in range(3)]
    answers = bench.run([job(choice, seed) for seed, choice in enumerate(choices)])
    for choice, said in zip(choices, answers, strict=True):
        assert said.text == ""
        if said.finish == "length":  # a list of calls may be as long as there are tokens
            continue
        assert said.finish == "tool_calls"
        assert said.calls
        assert choice.parallel or len(said.calls) == 1
        assert all(valid(name, arguments) for _, name, arguments in said.calls)
        assert {name for _, name, _ in said.calls} <= set(choice.names or SCHEMAS)
    assert sum(said.finish == "tool_calls" for said in answers) >= len(choices) - 3


def test_choices_of_one_job_have_ids_of_their_own(bench: Bench) -> None:
    answers = bench.run([job(ToolChoice(mode=ToolMode.REQUIRED, parallel=False), 7, n=4)])
    assert len({said.calls[0][0] for said in answers}) == 4


def test_an_answer_with_a_schema_is_that_or_calls(bench: Bench) -> None:
    grammar = Grammar(kind=GrammarKind.JSON_SCHEMA, source=json.dumps(ANSWER))
    for said in bench.run([job(ToolChoice(), seed, grammar=grammar) for seed in range(8)]):
        if said.finish == "length":
            continue
        if said.calls:
            assert (said.text, said.finish) == ("", "tool_calls")
            assert all(valid(name, arguments) for _, name, arguments in said.calls)
        else:
            jsonschema.validate(json.loads(said.text), ANSWER)
            assert said.finish == "stop"
