"""Generations as messages of Anthropic's API, whole and as events."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from gateway.dialects.anthropic.models import AnthropicEvent, AnthropicMessage
from router.messages import Delta, Finished, FinishReason, Job
from tests.fakes.scripted_worker import Script, ScriptedWorker, answer_in_steps, usage
from tests.gateway.answers.test_chat_answer import PARTS, answer
from tests.gateway.conftest import HI, MODEL, SetStage, Stage
from tests.gateway.openai.test_tools import CITY

TOOLS = [{"name": name, "input_schema": CITY} for name in ("weather", "f")]
BODY: dict[str, Any] = {"model": MODEL, "max_tokens": 50, "messages": HI}
USES = [
    {"type": "tool_use", "id": "call_a", "name": "weather", "input": {"city": "Łódź"}},
    {"type": "tool_use", "id": "call_b", "name": "f", "input": {}},
]


def deltas(*fields: dict[str, Any]) -> Script:
    """A token for each dictionary of a delta's fields."""

    async def script(worker: ScriptedWorker, job: Job) -> None:
        attempt = uuid.uuid4().hex
        worker.begin(job, attempt)
        for position, each in enumerate(fields):
            place: dict[str, Any] = {"start": position, "token_ids": [position], "cached_tokens": 0 if position else 2}
            worker.send(job, Delta(job_id=job.id, attempt_id=attempt, **place, **each))
        worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, len(fields))))

    return script


def events(stream: str) -> list[dict[str, Any]]:
    """The data of the events, whose names are their types."""
    read = []
    for block in stream.removesuffix("\n\n").split("\n\n"):
        if block.startswith(":"):
            continue
        name, data = block.split("\n")
        payload = json.loads(data.removeprefix("data: "))
        assert name == f"event: {payload['type']}"
        AnthropicEvent.model_validate(payload)
        read.append(payload)
    return read


async def ask(stage: Stage, **fields: Any) -> dict[str, Any]:
    response = await stage.client.post("/v1/messages", json=BODY | fields)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    AnthropicMessage.model_validate(body)
    return body


async def stream(stage: Stage, **fields: Any) -> list[dict[str, Any]]:
    response = await stage.client.post("/v1/messages", json=BODY | {"stream": True} | fields)
    assert response.headers["content-type"].startswith("text/event-stream")
    return events(response.text)


async def test_a_whole_message_has_thinking_text_and_calls(set_stage: SetStage) -> None:
    script = deltas(
        {"reasoning": "Hm. "},
        {"reasoning": "Yes."},
        {"text": "Let me see."},
        {"tool_calls": PARTS[1][1]},
        {"tool_calls": PARTS[2][1], "finish_reason": "tool_calls"},
    )
    stage = await set_stage(script)
    body = await ask(stage, tools=TOOLS)
    assert body["content"] == [
        {"type": "thinking", "thinking": "Hm. Yes.", "signature": ""},
        {"type": "text", "text": "Let me see."},
        *USES,
    ]
    assert (body["stop_reason"], body["stop_sequence"]) == ("tool_use", None)
    assert body["id"] == f"msg_{stage.worker.jobs[0].id.removeprefix('chatcmpl-')}"
    counted = {"input_tokens": 3, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 2, "output_tokens": 5}
    assert body["usage"] == counted


async def test_a_stream_has_a_block_for_each_kind_of_text_and_each_call(set_stage: SetStage) -> None:
    script = deltas(
        {"reasoning": "Hm."},
        {"text": "Let "},
        {"text": "me see."},
        {"tool_calls": PARTS[1][1]},
        {"tool_calls": PARTS[2][1], "finish_reason": "tool_calls"},
    )
    start, ping, *rest, delta, stop = await stream(await set_stage(script), tools=TOOLS)
    assert (start["type"], ping["type"], stop) == ("message_start", "ping", {"type": "message_stop"})
    assert start["message"]["content"] == []
    assert start["message"]["stop_reason"] is None
    assert [(each["type"].removeprefix("content_block_"), each["index"]) for each in rest] == [
        *(("start", 0), ("delta", 0), ("stop", 0)),
        *(("start", 1), ("delta", 1), ("delta", 1), ("stop", 1)),
        *(("start", 2), ("delta", 2), ("delta", 2), ("stop", 2)),
        *(("start", 3), ("delta", 3), ("stop", 3)),
    ]
    assert [each["content_block"] for each in rest if "content_block" in each] == [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "text", "text": ""},
        *({**each, "input": {}} for each in USES),
    ]
    parts = [each["delta"] for each in rest if "delta" in each]
    assert [each.get("thinking", each.get("text", each.get("partial_json"))) for each in parts] == [
        "Hm.",
        "Let ",
        "me see.",
        '{"city":',
        ' "Łódź"}',
        "{}",
    ]
    assert delta["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert delta["usage"]["output_tokens"] == 5


@pytest.mark.parametrize(
    ("finish", "stop", "reason", "sequence"),
    [
        ("stop", None, "end_turn", None),
        ("stop", 7, "end_turn", None),
        ("stop", "END", "stop_sequence", "END"),
        ("length", None, "max_tokens", None),
        ("content_filter", None, "refusal", None),
    ],
)
async def test_stop_reasons(
    set_stage: SetStage, finish: FinishReason, stop: str | int | None, reason: str, sequence: str | None
) -> None:
    stage = await set_stage(deltas({"text": "x"}, {"finish_reason": finish, "stop_reason": stop}))
    body = await ask(stage)
    assert (body["stop_reason"], body["stop_sequence"]) == (reason, sequence)
    streamed = (await stream(stage))[-2]["delta"]
    assert streamed == {"stop_reason": reason, "stop_sequence": sequence}


async def test_an_answer_without_text_has_no_blocks(set_stage: SetStage) -> None:
    stage = await set_stage(deltas({"finish_reason": "stop"}))
    assert (await ask(stage))["content"] == []
    assert [each["type"] for each in await stream(stage)] == ["message_start", "ping", "message_delta", "message_stop"]


async def test_thinking_can_be_left_out(set_stage: SetStage) -> None:
    stage = await set_stage(deltas({"reasoning": "Hm."}, {"text": "Yes.", "finish_reason": "stop"}))
    thinking = {"type": "enabled", "budget_tokens": 10, "display": "omitted"}
    assert (await ask(stage, thinking=thinking))["content"] == [{"type": "text", "text": "Yes."}]
    assert [
        each["content_block"]["type"] for each in await stream(stage, thinking=thinking) if "content_block" in each
    ] == ["text"]


async def test_steps_are_not_shown(set_stage: SetStage) -> None:
    stage = await set_stage(answer_in_steps)
    assert (await ask(stage))["content"] == [{"type": "text", "text": "a b"}]
    assert [each["delta"]["text"] for each in await stream(stage) if each["type"] == "content_block_delta"]


async def test_text_can_not_forge_events(set_stage: SetStage) -> None:
    text = '\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n\r\u2028\x00'
    stage = await set_stage(answer([(text, [])], "stop"))
    read = await stream(stage)
    assert [each["delta"]["text"] for each in read if each["type"] == "content_block_delta"] == [text]
    assert [each["type"] for each in read].count("message_stop") == 1
