"""Structured output: grammars that reach the worker, and schemas that are refused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.openai.chat_completions import ChatCompletionRequest
from router.messages import Grammar, GrammarKind
from tests.gateway.conftest import SetStage

SCHEMA = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/b"}, "tree": {"type": "array", "items": {"$ref": "#"}}},
    "$defs": {"b": {"type": ["string", "null"], "pattern": "^([a-z]+-)*[a-z]+$", "maxLength": 65536}},
    "required": ["a"],
    "additionalProperties": False,
}


def response_format(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, **more}}


OFFERED: list[tuple[dict[str, Any], GrammarKind | None, Any]] = [
    ({"response_format": {"type": "text"}}, None, None),
    ({"response_format": None, "structured_outputs": None}, None, None),
    ({"response_format": {"type": "json_object"}}, GrammarKind.JSON_OBJECT, None),
    ({"response_format": response_format(SCHEMA)}, GrammarKind.JSON_SCHEMA, SCHEMA),
    ({"response_format": response_format(SCHEMA, strict=True, description="x")}, GrammarKind.JSON_SCHEMA, SCHEMA),
    ({"structured_outputs": {"json": SCHEMA}}, GrammarKind.JSON_SCHEMA, SCHEMA),
    ({"structured_outputs": {"json": json.dumps(SCHEMA)}}, GrammarKind.JSON_SCHEMA, SCHEMA),
    ({"structured_outputs": {"json_object": True}}, GrammarKind.JSON_OBJECT, None),
    ({"structured_outputs": {"choice": ["yes", "no"]}}, GrammarKind.CHOICE, ["yes", "no"]),
]


@pytest.mark.parametrize("endpoint", ["chat", "complete"])
@pytest.mark.parametrize(("fields", "kind", "source"), OFFERED)
async def test_supported_grammars_reach_the_worker(
    set_stage: SetStage, endpoint: str, fields: dict[str, Any], kind: GrammarKind | None, source: Any
) -> None:
    stage = await set_stage()
    assert (await getattr(stage, endpoint)(**fields)).status_code == 200
    grammar = stage.worker.jobs[0].grammar
    if kind is None:
        assert grammar is None
    else:
        assert grammar is not None
        assert (grammar.kind, json.loads(grammar.source or "null")) == (kind, source)
        assert fields[grammar.param]


@pytest.mark.parametrize(
    ("outputs", "kind"), [({"regex": "[0-9]+"}, GrammarKind.REGEX), ({"grammar": 'start: "a"'}, GrammarKind.LARK)]
)
async def test_a_grammars_text_is_sent_unchanged(
    set_stage: SetStage, outputs: dict[str, str], kind: GrammarKind
) -> None:
    stage = await set_stage()
    assert (await stage.chat(structured_outputs=outputs)).status_code == 200
    [source] = outputs.values()
    assert stage.worker.jobs[0].grammar == Grammar(kind=kind, source=source, param="structured_outputs")


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


BAD_SCHEMAS: list[Any] = [
    {"description": "x" * 1_000_000},
    {"enum": list(range(10_000))},
    {"anyOf": [{"enum": list(range(400))}] * 3},
    nested(50),
    {"$ref": "#"},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    {"$ref": "#/$defs/missing"},
    {"$ref": "#/$defs/a/b/0", "$defs": {"a": {"b": []}}},
    {"$ref": "http://169.254.169.254/"},
    {"$ref": "file:///etc/passwd"},
    {"$ref": "other.json#/a"},
    {"properties": {"a": {"pattern": "(a+)+$"}}},
    {"patternProperties": {"(?:[a-z]*)*": {}}},
    {"pattern": "x" * 5000},
    {"pattern": 5},
    {"minItems": 10**9},
    {"maxLength": -1},
    {"minLength": 1.0},
    {"multipleOf": 0},
    {"multipleOf": -1},
    {"minimum": "1"},
    {"type": "foo"},
    {"type": ["string", "foo"]},
    {"type": 5},
    {"enum": []},
    {"enum": {}},
    {"required": "a"},
    {"properties": []},
    {"properties": {"a": 5}},
    {"anyOf": []},
    {"anyOf": {}},
    {"items": "string"},
    {"uniqueItems": 1},
    "string",
    ["a"],
    None,
]


@pytest.mark.parametrize("schema", BAD_SCHEMAS, ids=lambda schema: json.dumps(schema)[:40])
async def test_bad_schemas_are_refused_at_once(set_stage: SetStage, schema: Any) -> None:
    stage = await set_stage()
    bodies: list[dict[str, Any]] = [
        {"response_format": response_format(schema)},
        {"structured_outputs": {"json": schema}},
    ]
    for fields in bodies:
        started = time.perf_counter()
        answer = await stage.chat(**fields)
        assert time.perf_counter() - started < 10  # what is compiled takes for ever
        error = answer.json()["error"]
        assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
        assert error["param"].startswith(next(iter(fields)))
        assert len(error["message"]) < 400
    assert not stage.worker.jobs


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": "json_object"}, "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, None),
        ({"response_format": response_format({}, name="a b")}, "response_format.json_schema.name"),
        ({"response_format": response_format({}, strict="yes")}, "response_format.json_schema.strict"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": [""]}}, "structured_outputs.choice[0]"),
        ({"structured_outputs": {"choice": ["a"] * 1001}}, "structured_outputs.choice"),
        ({"structured_outputs": {"regex": ""}}, "structured_outputs.regex"),
        ({"structured_outputs": {"regex": "(a*)*b"}}, "structured_outputs.regex"),
        ({"structured_outputs": {"grammar": "x" * 200_000}}, "structured_outputs.grammar"),
        ({"structured_outputs": {"regex": "a", "_backend": "x"}}, "structured_outputs._backend"),
        ({"structured_outputs": {"structural_tag": "{}"}}, "structured_outputs.structural_tag"),
        ({"guided_json": {}}, "guided_json"),
        ({"guided_regex": "a"}, "guided_regex"),
        ({"guided_choice": ["a"]}, "guided_choice"),
        ({"guided_grammar": "a"}, "guided_grammar"),
        ({"guided_decoding_backend": "outlines"}, "guided_decoding_backend"),
        ({"response_format": {"type": "json_object"}, "structured_outputs": {"regex": "a"}}, None),
    ],
)
def test_invalid_structured_outputs_are_refused_by_name(fields: dict[str, Any], param: str | None) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    with pytest.raises(InvalidRequest) as refused:
        ChatCompletionRequest.parse(body)
    assert param is None or refused.value.param == param
