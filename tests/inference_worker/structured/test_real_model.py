"""Outputs of a real model at temperature 1 match their grammars. `HEADRACE_TEST_SCHEMAS`: number of schemas."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import jsonschema
import pytest

from inference_worker.engine.engine import Engine
from inference_worker.engine_protocol import GenerationRequest
from inference_worker.settings import EngineSettings
from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.tokenizer.tokenizer_files import read_text_files
from router.messages import Grammar, GrammarKind, SamplingParams
from tests.inference_worker.generation import generate
from tests.inference_worker.structured.schemas import schema

pytestmark = pytest.mark.model

SCHEMAS = int(os.environ.get("HEADRACE_TEST_SCHEMAS", "64"))
FORMATS = jsonschema.FormatChecker(["email", "ipv4", "uuid"])
"""Formats not validated: grammars ignore leap years, and jsonschema's "time" is draft 3's, without a zone."""


@pytest.fixture(scope="module")
def tokenizer(model_file: Path) -> Tokenizer:
    return read_text_files(model_file).tokenizer


@pytest.fixture(scope="module")
def engine(model_file: Path) -> Engine:
    return Engine.from_settings(EngineSettings(model=str(model_file), quantization="auto", max_model_len=256))


def request(
    tokenizer: Tokenizer, name: str, prompt: str, grammar: Grammar, seed: int, most: int, n: int = 1
) -> GenerationRequest:
    sampling = SamplingParams(seed=seed, temperature=1.0, max_tokens=most)
    return GenerationRequest(id=name, prompt_ids=tokenizer.encode(prompt), sampling=sampling, grammar=grammar, n=n)


def text(tokenizer: Tokenizer, ids: list[int]) -> str:
    return b"".join(tokenizer.token_data(token) for token in ids if token not in tokenizer.controls.ids).decode()


def test_answers_validate(engine: Engine, tokenizer: Tokenizer) -> None:
    requests = [
        request(
            tokenizer,
            str(seed),
            "Short JSON:\n",
            Grammar(kind=GrammarKind.JSON_SCHEMA, source=json.dumps(schema(seed))),
            seed,
            56,
        )
        for seed in range(SCHEMAS)
    ]
    outcome = generate(engine, requests)
    assert engine.failures() == []
    complete = [int(name) for (name, _), choice in outcome.items() if choice.reason == "stop"]
    assert len(complete) > SCHEMAS // 2
    for seed in complete:
        answer = json.loads(text(tokenizer, outcome[str(seed), 0].ids))
        jsonschema.validate(answer, schema(seed), format_checker=FORMATS)


def test_other_kinds_of_grammars(engine: Engine, tokenizer: Tokenizer) -> None:
    kinds = {
        "regex": Grammar(kind=GrammarKind.REGEX, source=r"\d{4}-\d{2}-\d{2} (am|pm) é+"),
        "choice": Grammar(kind=GrammarKind.CHOICE, source=json.dumps(["positive", "negative", 'größe "x"'])),
        "lark": Grammar(kind=GrammarKind.LARK, source='start: NUM ("+" NUM)*\nNUM: /[0-9]{1,3}/'),
        "object": Grammar(kind=GrammarKind.JSON_OBJECT),
    }
    requests = [request(tokenizer, name, "Answer: ", each, 5, 60, n=4) for name, each in kinds.items()]
    outcome = generate(engine, requests)
    outputs = {
        name: [text(tokenizer, one.ids) for (of, _), one in outcome.items() if of == name and one.reason == "stop"]
        for name in kinds
    }
    assert all(re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2} (am|pm) é+", one) for one in outputs["regex"])
    assert outputs["choice"]
    assert set(outputs["choice"]) <= {"positive", "negative", 'größe "x"'}
    assert all(re.fullmatch(r"\d{1,3}(\+\d{1,3})*", one) for one in outputs["lark"])
    assert all(isinstance(json.loads(one), dict) for one in outputs["object"])
