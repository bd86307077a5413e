"""The default model, 135M parameters at temperature 1, makes required and strict calls with valid arguments."""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import msgspec
import pytest

from inference_worker.engine.engine import Engine
from inference_worker.settings import EngineSettings
from inference_worker.tokenizer.tokenizer_files import read_text_files
from inference_worker.worker.text.model_limits import ModelLimits
from inference_worker.worker.text.output_text import Release
from inference_worker.worker.text.processor import TextProcessor
from router.messages import (
    LARK_KEYWORD,
    ChatPrompt,
    Grammar,
    GrammarKind,
    Job,
    SamplingParams,
    ToolChoice,
    ToolMode,
    merge_tool_calls,
)
from tests.fakes.jobs import make_job

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
FUNCTIONS = [{"name": name, "description": f"Do {name}.", "parameters": schema} for name, schema in SCHEMAS.items()]
TOOLS = [{"type": "function", "function": function} for function in FUNCTIONS]
STRICT_TOOLS = [{"type": "function", "function": {**function, "strict": True}} for function in FUNCTIONS]
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
        self.limits = ModelLimits(1024, self.engine.ready().vocab_size)

    def run(self, jobs: list[Job]) -> list[Said]:
        outputs = {}
        for job in jobs:
            request = asyncio.run(self.text.prepare(job, job.id, self.limits))
            self.engine.add(request)
            for choice in range(job.n):
                outputs[job.id, choice] = self.text.open_output(job, choice, request.prompt_ids)
        releases: dict[tuple[str, int], list[Release]] = {key: [] for key in outputs}
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
    calls = merge_tool_calls(call for release in releases for call in release.calls or ())
    text = "".join(release.text for release in releases)
    return Said(text, [(call.id, call.name, call.arguments) for call in calls], releases[-1].finish)


@pytest.fixture(scope="module")
def bench(model_file: Path) -> Iterator[Bench]:
    made = Bench(model_file)
    yield made
    made.text.close()


def job(name: str, choice: ToolChoice, grammar: Grammar | None = None, n: int = 1) -> Job:
    return make_job(
        name,
        prompt=ChatPrompt(messages=[{"role": "user", "content": "Emma?"}], tools=TOOLS, tool_choice=choice),
        sampling=SamplingParams(seed=zlib.crc32(name.encode()), temperature=1.0, max_tokens=250),
        grammar=grammar,
        n=n,
    )


def valid(name: str, arguments: str) -> bool:
    jsonschema.validate(json.loads(arguments), SCHEMAS[name])
    return True


def test_required_calls_are_valid_and_schema_answers_match_the_schema_or_call(bench: Bench) -> None:
    """All requests in one batch: a test with a real model is slow."""
    required = ToolMode.REQUIRED
    forced = [
        *(ToolChoice(mode=required, names=[name], parallel=False) for name in SCHEMAS),
        *(ToolChoice(mode=required, parallel=False) for _ in range(3)),
        ToolChoice(mode=required, names=["now", "search"]),
    ]
    schema = Grammar(kind=GrammarKind.JSON_SCHEMA, source=json.dumps(ANSWER))
    jobs = [job(f"forced-{number}", choice) for number, choice in enumerate(forced)]
    *called, first, second, third = bench.run([*jobs, job("answer", ToolChoice(), schema, n=3)])
    for choice, said in zip(forced, called, strict=True):
        assert said.text == ""
        assert {name for _, name, _ in said.calls} <= set(choice.names or SCHEMAS)
        assert (said.finish == "length") == (not _complete(said))
    assert sum(_complete(said) for said in called) >= len(forced) - 2
    for said in (first, second, third):
        if said.calls:
            assert (said.text, _complete(said)) == ("", said.finish != "length")
        elif said.finish == "stop":
            jsonschema.validate(json.loads(said.text), ANSWER)
    ids = [id_ for said in (*called, first, second, third) for id_, _, _ in said.calls]
    assert len(set(ids)) == len(ids)


def test_a_strict_call_that_the_model_opens_is_valid(bench: Bench) -> None:
    """The model resumes after the opener of a call, and once after free text, with `tool_choice: "auto"`."""
    begun = job("strict", ToolChoice(), n=6)
    opener = bench.text.tokenizer.encode_inside("Let me see. <tool_call>")
    resumed = msgspec.structs.replace(
        begun,
        prompt=msgspec.structs.replace(begun.prompt, tools=STRICT_TOOLS),
        delivered=[opener] * 5 + [bench.text.tokenizer.encode_inside("Let me {")],
    )
    *opened, free = bench.run([resumed])
    for said in opened:
        assert said.calls
        assert {name for _, name, _ in said.calls} <= SCHEMAS.keys()
        assert said.finish == "length" or _all_valid(said)
    assert sum(said.finish != "length" for said in opened) >= 3
    assert free.text


def test_the_input_of_a_custom_tool_matches_its_grammar_in_lark_s_notation(bench: Bench) -> None:
    """A forced call, and one that the model goes on with after its opener."""
    definition = 'start: QUOTED "\\n" SUM\nQUOTED: /"[^"\\n]{1,20}"/\nSUM: INT ("+" INT){0,3}\nINT: /[0-9]{1,3}/'
    text = {"type": "string", LARK_KEYWORD: definition}
    schema = {"type": "object", "properties": {"input": text}, "required": ["input"], "additionalProperties": False}
    tools = [{"type": "function", "function": {"name": "calculate", "parameters": schema, "strict": True}}]
    forced = job("lark", ToolChoice(mode=ToolMode.REQUIRED, parallel=False), n=3)
    forced = msgspec.structs.replace(forced, prompt=msgspec.structs.replace(forced.prompt, tools=tools))
    free = msgspec.structs.replace(
        forced,
        id="free",
        prompt=msgspec.structs.replace(forced.prompt, tool_choice=ToolChoice()),
        delivered=[bench.text.tokenizer.encode_inside("<tool_call>")] * 3,
    )
    said = bench.run([forced, free])
    inputs = [
        json.loads(arguments)["input"] for each in said for _, _, arguments in each.calls if each.finish != "length"
    ]
    assert len(inputs) >= 4
    assert [each for each in inputs if not re.fullmatch(r'"[^"\n]{1,20}"\n\d{1,3}(\+\d{1,3}){0,3}', each)] == []


def _all_valid(said: Said) -> bool:
    return all(valid(name, arguments) for _, name, arguments in said.calls)


def _complete(said: Said) -> bool:
    return said.finish == "tool_calls" and _all_valid(said)
