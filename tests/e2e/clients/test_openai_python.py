"""The official Python SDK against the whole platform: every helper that a program written for OpenAI uses."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from tests.e2e.clients.conftest import ALIAS, Service
from tests.e2e.launcher_process import MODEL, until

pytestmark = [pytest.mark.e2e, pytest.mark.model, pytest.mark.store]

ASK: Any = [{"role": "user", "content": "What is the capital of France? Answer with one word."}]
LONG: Any = [{"role": "user", "content": "Tell me a very long story about a river."}]
GREEDY: Any = {"model": MODEL, "messages": ASK, "temperature": 0, "max_tokens": 60}
ENDLESS: Any = {"model": MODEL, "messages": LONG, "max_tokens": 1500, "extra_body": {"ignore_eos": True}}


def text_of(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


@pytest.fixture(scope="module")
def whole(client: openai.OpenAI) -> Any:
    return client.chat.completions.create(**GREEDY)


# --- Chat completions


def test_create(whole: Any) -> None:
    assert "Paris" in whole.choices[0].message.content
    assert (whole.object, whole.model, whole.choices[0].finish_reason) == ("chat.completion", MODEL, "stop")
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    assert whole.usage.prompt_tokens_details.cached_tokens >= 0
    assert whole._request_id.startswith("req_")


def test_create_streamed(client: openai.OpenAI, whole: Any) -> None:
    with client.chat.completions.create(**GREEDY, stream=True, stream_options={"include_usage": True}) as stream:
        chunks = list(stream)
    assert text_of(chunks) == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_stream_helper(client: openai.OpenAI, whole: Any) -> None:
    with client.chat.completions.stream(**GREEDY, logprobs=True, stream_options={"include_usage": True}) as stream:
        events = list(stream)
        final = stream.get_final_completion()
    assert {event.type for event in events} == {
        "chunk",
        "content.delta",
        "content.done",
        "logprobs.content.delta",
        "logprobs.content.done",
    }
    content = whole.choices[0].message.content
    deltas = [event for event in events if event.type == "content.delta"]
    assert "".join(event.delta for event in deltas) == deltas[-1].snapshot == content
    assert [event.content for event in events if event.type == "content.done"] == [content]
    assert final.choices[0].message.content == content
    assert final.usage is not None
    assert whole.usage is not None
    assert final.usage == whole.usage.model_copy(update={"prompt_tokens_details": final.usage.prompt_tokens_details})


def test_several_choices(client: openai.OpenAI) -> None:
    asked: Any = {**GREEDY, "n": 3, "temperature": 1.0, "seed": 7, "max_tokens": 8}
    answer = client.chat.completions.create(**asked)
    texts = [choice.message.content for choice in answer.choices]
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len(set(texts)) > 1
    streamed = ["", "", ""]
    for chunk in client.chat.completions.create(**asked, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert streamed == texts


def test_the_stream_helper_reports_a_truncated_answer(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(**{**GREEDY, "max_tokens": 1, "messages": LONG}) as stream:
        stream.until_done()
        assert stream.current_completion_snapshot.choices[0].finish_reason == "length"
        with pytest.raises(openai.LengthFinishReasonError):
            stream.get_final_completion()


def test_logprobs(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(**{**GREEDY, "max_tokens": 4}, logprobs=True, top_logprobs=3)
    assert answer.choices[0].logprobs is not None
    content = answer.choices[0].logprobs.content
    assert content is not None
    assert b"".join(bytes(token.bytes or []) for token in content).decode() == answer.choices[0].message.content
    for token in content:
        assert len(token.top_logprobs) == 3
        assert token.logprob == token.top_logprobs[0].logprob <= 0


def test_stop_and_content_parts(client: openai.OpenAI) -> None:
    counting: Any = [
        {"role": "developer", "content": "You count."},
        {"role": "user", "content": [{"type": "text", "text": "Count: one, two, three, four,"}]},
    ]
    answer = client.chat.completions.create(
        model=MODEL, messages=counting, temperature=0, max_completion_tokens=40, stop=["five", "Five", ".", "\n"]
    )
    assert answer.choices[0].finish_reason == "stop"
    assert "five" not in (answer.choices[0].message.content or "").lower()


def test_fields_without_effect_are_accepted(client: openai.OpenAI, whole: Any) -> None:
    answer = client.chat.completions.create(
        **GREEDY,
        metadata={"run": "1"},
        user="me",
        safety_identifier="me",
        store=False,
        service_tier="auto",
        prompt_cache_key="k",
        seed=1,
        n=1,
        frequency_penalty=0,
        presence_penalty=0,
        logit_bias={},
        response_format={"type": "text"},
        modalities=["text"],
    )
    assert answer.choices[0].message.content == whole.choices[0].message.content


# --- Raw responses


def test_raw_response(client: openai.OpenAI, whole: Any) -> None:
    raw = client.chat.completions.with_raw_response.create(**GREEDY, extra_headers={"X-Client-Request-Id": "mine"})
    assert raw.headers["x-request-id"].startswith("req_")
    assert raw.headers["x-client-request-id"] == "mine"
    assert int(raw.headers["openai-processing-ms"]) >= 0
    assert raw.parse().choices[0].message.content == whole.choices[0].message.content


def test_raw_response_of_a_stream(client: openai.OpenAI, whole: Any) -> None:
    raw = client.chat.completions.with_raw_response.create(**GREEDY, stream=True)
    assert raw.headers["content-type"].startswith("text/event-stream")
    assert text_of(list(raw.parse())) == whole.choices[0].message.content


def test_streaming_response(client: openai.OpenAI) -> None:
    with client.chat.completions.with_streaming_response.create(**GREEDY) as response:
        assert json.loads(response.read())["object"] == "chat.completion"
    with client.chat.completions.with_streaming_response.create(**GREEDY, stream=True) as response:
        lines = [line for line in response.iter_lines() if line]
    assert all(line.startswith(("data: {", ":")) for line in lines[:-1])
    assert lines[-1] == "data: [DONE]"


# --- Completions, models


def test_completions(client: openai.OpenAI) -> None:
    asked: Any = {"model": MODEL, "prompt": ["1, 2, 3, 4,", "a, b, c, d,"], "temperature": 0, "max_tokens": 4}
    answer = client.completions.create(**asked, logprobs=2)
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert "5" in answer.choices[0].text
    assert answer.choices[0].logprobs is not None
    assert "".join(answer.choices[0].logprobs.tokens or []) == answer.choices[0].text
    texts = ["", ""]
    for chunk in client.completions.create(**asked, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == [choice.text for choice in answer.choices]


def test_models(client: openai.OpenAI) -> None:
    models = client.models.list()
    assert {model.id for model in models} >= {MODEL, ALIAS}
    assert client.models.retrieve(MODEL).object == "model"
    assert client.models.retrieve(ALIAS).to_dict()["root"] == MODEL
    assert client.chat.completions.create(**{**GREEDY, "model": ALIAS, "max_tokens": 1}).model == MODEL


# --- Errors


def test_error_classes(service: Service, client: openai.OpenAI) -> None:
    with pytest.raises(openai.AuthenticationError) as unknown:
        client.with_options(api_key="sk-wrong").models.list()
    assert unknown.value.code == "invalid_api_key"
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(**{**GREEDY, "model": "gpt-9"})
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as invalid:
        client.chat.completions.create(**{**GREEDY, "temperature": 3})
    assert (invalid.value.type, invalid.value.param) == ("invalid_request_error", "temperature")
    with pytest.raises(openai.BadRequestError) as too_long:
        client.completions.create(model=MODEL, prompt="word " * 20_000, max_tokens=1)
    assert too_long.value.code == "context_length_exceeded"
    assert too_long.value.request_id is not None
    assert too_long.value.request_id.startswith("req_")
    with pytest.raises(openai.BadRequestError):  # the error comes before the stream begins
        client.chat.completions.create(model=MODEL, messages=[], stream=True)
    with pytest.raises(openai.NotFoundError) as unserved:
        client.audio.speech.create(model=MODEL, voice="alloy", input="a river")
    assert unserved.value.code == "unknown_url"
    with pytest.raises(openai.BadRequestError) as no_images:
        client.images.generate(model=MODEL, prompt="a river")
    assert no_images.value.param == "model"
    nobody = openai.OpenAI(base_url=f"http://127.0.0.1:{service.port + 1}/v1", api_key="x", max_retries=0, timeout=2)
    with pytest.raises(openai.APIConnectionError):
        nobody.models.list()


def test_a_refused_request_is_not_retried(service: Service, client: openai.OpenAI) -> None:
    sent: list[httpx.Request] = []
    watching: Any = httpx.Client(event_hooks={"request": [sent.append]})
    with watching, pytest.raises(openai.BadRequestError):
        client.with_options(max_retries=3, http_client=watching).chat.completions.create(model=MODEL, messages=[])
    assert len(sent) == 1


def test_a_request_that_times_out_cancels_its_job(service: Service, client: openai.OpenAI) -> None:
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.5).chat.completions.create(**ENDLESS)
    service.until_idle()


def test_a_closed_stream_cancels_its_job(service: Service, client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(**ENDLESS, stream=True)
    for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            break
    until(lambda: service.running() == 1, 30)
    stream.close()
    service.until_idle()


# --- The asynchronous client


async def test_async_client(service: Service, whole: Any) -> None:
    async with service.async_client() as client:
        answer, listed, raw = await asyncio.gather(
            client.chat.completions.create(**GREEDY),
            client.models.list(),
            client.chat.completions.with_raw_response.create(**GREEDY),
        )
        content = whole.choices[0].message.content
        assert answer.choices[0].message.content == raw.parse().choices[0].message.content == content
        assert MODEL in [model.id async for model in listed]
        stream = await client.chat.completions.create(**GREEDY, stream=True)
        assert text_of([chunk async for chunk in stream]) == content
        async with client.chat.completions.stream(**GREEDY) as helper:
            kinds = [event.type async for event in helper]
            assert (await helper.get_final_completion()).choices[0].message.content == content
        assert kinds[-1] == "content.done"
        async with client.chat.completions.with_streaming_response.create(**GREEDY) as response:
            assert "chat.completion" in await response.text()
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("gpt-9")


async def test_a_cancelled_task_cancels_its_job(service: Service) -> None:
    async with service.async_client() as client:
        asking = asyncio.create_task(client.chat.completions.create(**ENDLESS))
        await asyncio.to_thread(until, lambda: service.running() == 1, 5)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.to_thread(service.until_idle)
        async with client.chat.completions.stream(**ENDLESS) as stream:
            async for event in stream:
                if event.type == "content.delta":
                    break
        await asyncio.to_thread(service.until_idle)
