"""Generations as answers of Ollama's API, whole and as lines of JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.ollama.models import OllamaChatAnswer, OllamaGenerateAnswer
from router.messages import FinishReason
from tests.fakes.scripted_worker import answer_in_steps, count
from tests.gateway.answers.test_chat_answer import PARTS, TOOLS, answer
from tests.gateway.conftest import HI, MODEL, SetStage, Stage
from tests.gateway.dialects.anthropic.test_answer import deltas

BODY: dict[str, Any] = {"model": MODEL, "messages": HI}
CALLS = [
    {"id": "call_a", "function": {"name": "weather", "arguments": {"city": "Łódź"}}},
    {"id": "call_b", "function": {"name": "f", "arguments": {}}},
]
ANSWER = deltas(
    {"reasoning": "Hm. "},
    {"reasoning": "Yes."},
    {"text": "Let me see."},
    {"tool_calls": PARTS[1][1]},
    {"tool_calls": PARTS[2][1], "finish_reason": "tool_calls"},
)


async def ask(stage: Stage, **fields: Any) -> dict[str, Any]:
    response = await stage.client.post("/api/chat", json=BODY | {"stream": False} | fields)
    assert response.status_code == 200, response.text
    OllamaChatAnswer.model_validate(response.json())
    body: dict[str, Any] = response.json()
    return body


async def lines(stage: Stage, path: str = "/api/chat", **fields: Any) -> list[dict[str, Any]]:
    response = await stage.client.post(path, json=(BODY if path == "/api/chat" else {"model": MODEL}) | fields)
    assert response.headers["content-type"] == "application/x-ndjson"
    read = [json.loads(line) for line in response.text.split("\n")[:-1]]
    for line in read:
        (OllamaChatAnswer if path == "/api/chat" else OllamaGenerateAnswer).model_validate(line)
        assert line["done"] == (line is read[-1])
        assert line["model"] == MODEL
    return read


async def test_a_whole_answer_has_thinking_text_and_calls(set_stage: SetStage) -> None:
    body = await ask(await set_stage(ANSWER), tools=TOOLS)
    assert body["message"] == {
        "role": "assistant",
        "content": "Let me see.",
        "thinking": "Hm. Yes.",
        "tool_calls": CALLS,
    }
    assert (body["done"], body["done_reason"]) == (True, "stop")
    assert (body["prompt_eval_count"], body["eval_count"]) == (5, 5)
    assert body["total_duration"] == body["prompt_eval_duration"] + body["eval_duration"] > 0


async def test_a_stream_has_text_as_it_comes_and_whole_calls(set_stage: SetStage) -> None:
    *parts, last = await lines(await set_stage(ANSWER), tools=TOOLS)
    assert [part["message"] for part in parts] == [
        {"role": "assistant", "content": "", "thinking": "Hm. "},
        {"role": "assistant", "content": "", "thinking": "Yes."},
        {"role": "assistant", "content": "Let me see."},
        {"role": "assistant", "content": "", "tool_calls": CALLS},
    ]
    assert (last["message"], last["done_reason"]) == ({"role": "assistant", "content": ""}, "stop")
    assert (last["prompt_eval_count"], last["eval_count"]) == (5, 5)


async def test_generated_text_is_streamed_and_whole(set_stage: SetStage) -> None:
    stage = await set_stage(deltas({"reasoning": "Hm."}, {"text": "Yes."}, {"finish_reason": "stop"}))
    thought, text, last = await lines(stage, "/api/generate", prompt="hi")
    assert (thought["response"], thought["thinking"]) == ("", "Hm.")
    assert (text["response"], last["response"]) == ("Yes.", "")
    whole = (await stage.client.post("/api/generate", json={"model": MODEL, "prompt": "hi", "stream": False})).json()
    OllamaGenerateAnswer.model_validate(whole)
    assert (whole["response"], whole["thinking"], whole["done_reason"]) == ("Yes.", "Hm.", "stop")


@pytest.mark.parametrize(
    ("finish", "reason"), [("stop", "stop"), ("length", "length"), ("tool_calls", "stop"), ("content_filter", "stop")]
)
async def test_reasons(set_stage: SetStage, finish: FinishReason, reason: str) -> None:
    stage = await set_stage(deltas({"text": "x", "finish_reason": finish}))
    assert (await ask(stage))["done_reason"] == reason
    assert (await lines(stage))[-1]["done_reason"] == reason


async def test_steps_are_not_shown(set_stage: SetStage) -> None:
    stage = await set_stage(answer_in_steps)
    assert (await ask(stage))["message"]["content"] == "a b"
    assert "".join(line["message"]["content"] for line in await lines(stage)) == "a b"


async def test_text_can_not_forge_lines(set_stage: SetStage) -> None:
    text = '\n{"done":true}\n\r\u2028\x00,"done":true}\n'
    read = await lines(await set_stage(answer([(text, [])], "stop")))
    assert [line["message"]["content"] for line in read] == [text, ""]


async def test_times_are_those_of_the_request(set_stage: SetStage) -> None:
    read = await lines(await set_stage(count))
    assert len({line["created_at"] for line in read}) == 1
    assert read[0]["created_at"].endswith("Z")
