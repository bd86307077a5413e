"""`/v1/chat/completions`, whole and streamed, byte by byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.openai.chat_completion_answers import ChatCompletion, ChatCompletionChunk
from router.messages import ChatPrompt
from tests.fakes.scripted_worker import say
from tests.gateway.conftest import MODEL, SetStage


def frames(text: str) -> list[dict[str, Any]]:
    parts = text.split("\n\n")
    assert parts.pop() == ""
    assert all(part.startswith(("data: ", ": ping")) for part in parts)
    data = [part.removeprefix("data: ") for part in parts if part.startswith("data: ")]
    return [json.loads(part) for part in data if part != "[DONE]"]


async def test_whole_answer_has_every_key_that_clients_read(set_stage: SetStage) -> None:
    stage = await set_stage()
    response = await stage.chat(max_tokens=3)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    ChatCompletion.model_validate(body)
    assert body["id"].startswith("chatcmpl-")
    assert body["id"] == stage.worker.jobs[0].id
    assert body["model"] == MODEL
    assert body["service_tier"] == "default"
    assert body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "0 1 2 ", "refusal": None},
            "logprobs": None,
            "finish_reason": "length",
        }
    ]
    assert body["usage"]["prompt_tokens"] == 5
    assert body["usage"]["completion_tokens"] == 3
    assert body["usage"]["total_tokens"] == 8
    assert body["usage"]["prompt_tokens_details"]["cached_tokens"] == 2
    assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == 0


async def test_stream_is_framed_as_openai_does(set_stage: SetStage) -> None:
    stage = await set_stage()
    response = await stage.chat(stream=True, max_tokens=2)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.text.endswith("\n\ndata: [DONE]\n\n")
    assert "\r" not in response.text
    chunks = frames(response.text)
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk)
        assert "usage" not in chunk
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    choices = [chunk["choices"][0] for chunk in chunks]
    assert [choice["delta"] for choice in choices] == [
        {"role": "assistant", "content": "", "refusal": None},
        {"content": "0 "},
        {"content": "1 "},
        {},
    ]
    assert [choice["finish_reason"] for choice in choices] == [None, None, None, "length"]


async def test_include_usage_adds_null_to_each_chunk_and_one_chunk_without_choices(set_stage: SetStage) -> None:
    stage = await set_stage()
    response = await stage.chat(stream=True, stream_options={"include_usage": True})
    *chunks, last = frames(response.text)
    assert all(chunk["usage"] is None for chunk in chunks)
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 5


async def test_first_chunks_of_several_choices_come_in_order_of_index(set_stage: SetStage) -> None:
    stage = await set_stage()
    response = await stage.chat(stream=True, n=3)
    chunks = frames(response.text)
    assert [chunk["choices"][0]["index"] for chunk in chunks[:3]] == [0, 1, 2]
    texts = ["", "", ""]
    for chunk in chunks:
        choice = chunk["choices"][0]
        texts[choice["index"]] += choice["delta"].get("content", "")
    assert texts == ["0 1 2 3 4 "] * 3
    whole = (await stage.chat(n=3)).json()
    assert [choice["message"]["content"] for choice in whole["choices"]] == texts
    assert whole["usage"]["completion_tokens"] == 15


async def test_logprobs_whole_and_streamed(set_stage: SetStage) -> None:
    stage = await set_stage()
    whole = (await stage.chat(logprobs=True, top_logprobs=2, max_tokens=1)).json()
    content = whole["choices"][0]["logprobs"]["content"]
    assert content[0]["token"] == "0 "
    assert content[0]["bytes"] == [48, 32]
    assert content[0]["top_logprobs"][1] == {"token": "é", "logprob": -1.5, "bytes": [195, 169]}
    assert whole["choices"][0]["logprobs"]["refusal"] is None
    streamed = frames((await stage.chat(logprobs=True, top_logprobs=2, max_tokens=1, stream=True)).text)
    assert streamed[1]["choices"][0]["logprobs"]["content"] == content
    assert stage.worker.jobs[0].sampling.logprobs == 2


@pytest.mark.parametrize(
    "text", ["\r", "\n\n", "data: [DONE]\n\n", "event: x", "\u2028\u2029", "\x00", "🏳️‍🌈", ": ping"]
)
async def test_text_of_a_model_never_breaks_a_frame(set_stage: SetStage, text: str) -> None:
    stage = await set_stage(say(text, "end"))
    response = await stage.chat(stream=True)
    assert response.content.isascii()
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in frames(response.text)) == text + "end"


async def test_the_job_has_the_requests_options(set_stage: SetStage) -> None:
    stage = await set_stage()
    response = await stage.client.post(
        "/v1/chat/completions",
        headers={"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
        json={
            "model": MODEL,
            "messages": [
                {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                {"role": "assistant", "content": "so", "name": None},
            ],
            "max_completion_tokens": 7,
            "max_tokens": 9,
            "temperature": 1e-30,
            "top_k": -1,
            "seed": -1,
            "stop": "x",
            "stop_token_ids": [3],
            "logit_bias": {"17": -100},
            "service_tier": "flex",
            "continue_final_message": True,
            "chat_template_kwargs": {"enable_thinking": False},
            "tools_off": ["weather", "*"],
            "tools_allowed": ["mcp.shop.search"],
            "unknown": 1,
        },
    )
    assert response.status_code == 200, response.text
    assert response.json()["service_tier"] == "flex"
    job = stage.worker.jobs[0]
    assert isinstance(job.prompt, ChatPrompt)
    assert job.prompt.messages == [{"role": "developer", "content": "a\nb"}, {"role": "assistant", "content": "so"}]
    assert (job.prompt.add_generation_prompt, job.prompt.continue_final_message) == (False, True)
    assert job.prompt.template_kwargs == {"enable_thinking": False}
    assert job.prompt.tools_off == ["weather", "*"]
    assert job.prompt.tools_allowed == ["mcp.shop.search"]
    assert job.sampling.max_tokens == 7
    assert job.sampling.temperature == 0
    assert job.sampling.top_k == 0
    assert job.sampling.seed == 2**63 - 1
    assert job.sampling.logit_bias == {17: -100}
    assert job.text.stop == ["x"]
    assert job.service_class == "flex"
    assert (job.tenant, job.cache_salt) == ("tenant-1", "salt-1")


async def test_seed_is_always_set_and_differs(set_stage: SetStage) -> None:
    stage = await set_stage()
    await stage.chat()
    await stage.chat()
    first, second = (job.sampling.seed for job in stage.worker.jobs)
    assert first != second
    assert min(first, second) >= 0


async def test_a_clients_cache_salt_narrows_its_tenants(set_stage: SetStage) -> None:
    stage = await set_stage()
    await stage.chat(cache_salt="mine")
    salt = stage.worker.jobs[0].cache_salt
    assert salt not in ("", "mine", "salt-1")
