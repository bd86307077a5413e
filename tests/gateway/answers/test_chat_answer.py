"""Tool calls in whole answers and chunks, and as OpenAI's client parses them."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import openai
import pytest
from pydantic import BaseModel

from gateway.openai.chat_completion_answers import ChatCompletion, ChatCompletionChunk
from router.messages import Finished, FinishReason, Job, Step, StepState, ToolCallDelta
from stored_objects.blobs.blobs import new_blob_id
from tests.contract.examples import msgspec_replace
from tests.fakes.scripted_worker import (
    PART_BOUNDS,
    ROUTE,
    RUNNING,
    WEATHER,
    Script,
    ScriptedWorker,
    answer_in_steps,
    logprob,
    say,
    status,
    step_delta,
    usage,
)
from tests.gateway.conftest import KEY, MODEL, SetStage, Stage, eventually
from tests.gateway.http.routes.test_chat_completions import frames
from tests.gateway.openai.test_tools import CITY, HI, tool

TOOLS = [tool("weather", parameters=CITY), tool("f")]
FIRST = ToolCallDelta(index=0, id="call_a", name="weather")
PARTS: list[tuple[str, list[ToolCallDelta]]] = [
    ("", []),
    ("", [FIRST, ToolCallDelta(index=0, arguments='{"city":')]),
    ("", [ToolCallDelta(index=0, arguments=' "Łódź"}'), ToolCallDelta(index=1, id="call_b", name="f", arguments="{}")]),
]
CALLS = [
    {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Łódź"}'}},
    {"id": "call_b", "type": "function", "function": {"name": "f", "arguments": "{}"}},
]

BLOB = new_blob_id()


def answer(parts: list[tuple[str, list[ToolCallDelta]]], finish: FinishReason = "tool_calls") -> Script:
    """A token for each part, with its text and what it adds to calls, in every choice."""

    async def script(worker: ScriptedWorker, job: Job) -> None:
        attempt = uuid.uuid4().hex
        worker.begin(job, attempt)
        for position, (text, calls) in enumerate(parts):
            lp = [logprob(position)] if job.sampling.logprobs is not None else None
            last = finish if position == len(parts) - 1 else None
            worker.send_token(job, attempt, position, text, tool_calls=calls or None, logprobs=lp, finish_reason=last)
        worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, len(parts))))

    return script


def client(stage: Stage) -> openai.AsyncOpenAI:
    http: Any = stage.client  # httpx's: the SDK declares httpx2's, and takes both
    return openai.AsyncOpenAI(api_key=KEY, base_url="http://gateway/v1", http_client=http, max_retries=0)


async def test_a_whole_answer_with_tool_calls_only(set_stage: SetStage) -> None:
    stage = await set_stage(answer(PARTS))
    body = (await stage.chat(tools=TOOLS, n=2)).json()
    ChatCompletion.model_validate(body)
    for choice in body["choices"]:
        assert choice["message"] == {"role": "assistant", "content": None, "refusal": None, "tool_calls": CALLS}
        assert choice["finish_reason"] == "tool_calls"
    assert body["usage"]["completion_tokens"] == 6


async def test_text_beside_tool_calls_is_kept(set_stage: SetStage) -> None:
    stage = await set_stage(answer([("Let me see.", []), *PARTS]))
    message = (await stage.chat(tools=TOOLS)).json()["choices"][0]["message"]
    assert (message["content"], message["tool_calls"]) == ("Let me see.", CALLS)


async def test_without_calls_tool_calls_is_left_out(set_stage: SetStage) -> None:
    stage = await set_stage(say("hi"))
    message = (await stage.chat(tools=TOOLS)).json()["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "hi", "refusal": None}


async def test_chunks_send_id_and_name_once_and_arguments_in_parts(set_stage: SetStage) -> None:
    stage = await set_stage(answer(PARTS))
    chunks = frames((await stage.chat(tools=TOOLS, stream=True)).text)
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk)
    role, *deltas, last = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert (role, last) == ({"role": "assistant", "content": None, "refusal": None}, {})
    assert [delta["tool_calls"] for delta in deltas] == [
        [{"index": 0, "id": "call_a", "type": "function", "function": {"name": "weather", "arguments": ""}}],
        [{"index": 0, "function": {"arguments": '{"city":'}}],
        [{"index": 0, "function": {"arguments": ' "Łódź"}'}}],
        [{"index": 1, "id": "call_b", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks][-1] == "tool_calls"


async def test_every_token_s_log_probability_is_in_one_chunk(set_stage: SetStage) -> None:
    stage = await set_stage(answer([("hm", []), *PARTS]))
    fields: dict[str, Any] = {"tools": TOOLS, "logprobs": True}
    whole = (await stage.chat(**fields)).json()["choices"][0]["logprobs"]["content"]
    chunks = frames((await stage.chat(stream=True, **fields)).text)
    streamed = [token for chunk in chunks for token in (chunk["choices"][0]["logprobs"] or {}).get("content", [])]
    assert streamed == whole
    assert len(whole) == 4


@pytest.mark.parametrize(("choice", "reason"), [(tool("weather"), "stop"), ("required", "tool_calls")])
async def test_a_call_forced_by_name_finishes_with_stop(set_stage: SetStage, choice: Any, reason: str) -> None:
    stage = await set_stage(answer(PARTS))
    body = (await stage.chat(tools=TOOLS, tool_choice=choice)).json()
    assert body["choices"][0]["finish_reason"] == reason
    chunks = frames((await stage.chat(tools=TOOLS, tool_choice=choice, stream=True)).text)
    assert chunks[-1]["choices"][0]["finish_reason"] == reason
    assert body["choices"][0]["message"]["tool_calls"] == CALLS


FUNCTIONS = [each["function"] for each in TOOLS]
ONE_CALL = [*PARTS[:2], ("", [ToolCallDelta(index=0, arguments=' "Łódź"}')])]
FUNCTION_CALL = CALLS[0]["function"]


@pytest.mark.parametrize(("function_call", "reason"), [(None, "function_call"), ({"name": "weather"}, "stop")])
async def test_functions_get_a_function_call(set_stage: SetStage, function_call: Any, reason: str) -> None:
    stage = await set_stage(answer(ONE_CALL))
    body = (await stage.chat(functions=FUNCTIONS, function_call=function_call)).json()
    ChatCompletion.model_validate(body)
    message = {"role": "assistant", "content": None, "refusal": None, "function_call": FUNCTION_CALL}
    assert (body["choices"][0]["message"], body["choices"][0]["finish_reason"]) == (message, reason)


async def test_a_function_call_is_streamed(set_stage: SetStage) -> None:
    stage = await set_stage(answer(PARTS))  # of two calls: a provider may send more than were asked for
    chunks = frames((await stage.chat(functions=FUNCTIONS, stream=True)).text)
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk)
    assert [chunk["choices"][0]["delta"].get("function_call") for chunk in chunks] == [
        None,
        {"name": "weather", "arguments": ""},
        {"arguments": '{"city":'},
        {"arguments": ' "Łódź"}'},
        None,
    ]
    assert chunks[-1]["choices"][0]["finish_reason"] == "function_call"


class Weather(BaseModel):
    city: str


async def test_openai_s_client_streams_and_parses_calls(set_stage: SetStage) -> None:
    stage = await set_stage(answer([("Well.", []), *PARTS[:2], ("", [ToolCallDelta(index=0, arguments=' "Łódź"}')])]))
    tools = [openai.pydantic_function_tool(Weather, name="weather")]
    async with client(stage).chat.completions.stream(model=MODEL, messages=HI, tools=tools) as stream:  # type: ignore[arg-type]
        events = [event async for event in stream]
        streamed = (await stream.get_final_completion()).choices[0]
    assert [event.type for event in events if event.type.startswith("tool_calls")] == [
        *["tool_calls.function.arguments.delta"] * 3,
        "tool_calls.function.arguments.done",
    ]
    whole = (await client(stage).chat.completions.parse(model=MODEL, messages=HI, tools=tools)).choices[0]  # type: ignore[arg-type]
    for choice in (streamed, whole):
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content == "Well."
        assert choice.message.tool_calls is not None
        assert choice.message.tool_calls[0].id == "call_a"
        assert choice.message.tool_calls[0].function.parsed_arguments == Weather(city="Łódź")
    prompt: Any = stage.worker.jobs[0].prompt
    assert prompt.tools[0]["function"]["parameters"]["required"] == ["city"]


async def test_streamed_calls_without_text_have_null_content(set_stage: SetStage) -> None:
    stage = await set_stage(answer(PARTS))
    async with client(stage).chat.completions.stream(model=MODEL, messages=HI, tools=TOOLS) as stream:  # type: ignore[arg-type]
        message = (await stream.get_final_completion()).choices[0].message
    assert message.content is None
    assert [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or []] == [
        (call["id"], call["function"]["name"], call["function"]["arguments"])  # type: ignore[index]
        for call in CALLS
    ]


async def stage_with_steps(set_stage: SetStage) -> Stage:
    stage = await set_stage(answer_in_steps)
    stage.worker.bus.send_status(msgspec_replace(status(MODEL), parts=PART_BOUNDS))
    await eventually(lambda: all(model.max_parts for model in stage.gateway.models.models()))
    return stage


STEPS = [
    {"number": step.number, "kind": step.kind, "name": step.name, "state": step.state.value, "data": step.data}
    for step in (ROUTE, RUNNING, WEATHER)
]
USED_BY_STEPS = [
    {"model": "router-1.5", "prompt_tokens": 80, "completion_tokens": 9, "cached_tokens": 64},
    {"model": "tool.weather", "prompt_tokens": 0, "completion_tokens": 0, "units": {"call": 1}},
]


async def test_a_whole_answer_has_its_ended_steps_and_their_usage(set_stage: SetStage) -> None:
    stage = await stage_with_steps(set_stage)
    body = (await stage.chat()).json()
    ChatCompletion.model_validate(body)
    message = {"role": "assistant", "content": "a b", "refusal": None, "steps": [STEPS[0], STEPS[2]]}
    assert body["choices"][0]["message"] == message
    assert (body["usage"]["completion_tokens"], body["usage"]["parts"]) == (2, USED_BY_STEPS)
    receipt = await stage.receipt()
    assert (receipt.usage.completion_tokens, receipt.parts) == (2, [*ROUTE.parts, *WEATHER.parts])
    again = [{"role": "user", "content": "x"}, message, {"role": "user", "content": "and tomorrow?"}]
    json = {"model": MODEL, "messages": again}
    assert (await stage.client.post("/v1/chat/completions", json=json)).status_code == 200
    assert "steps" not in str(stage.worker.jobs[-1].prompt)


async def _answer_with_an_image(worker: ScriptedWorker, job: Job) -> None:
    result = {"type": "image", "images": [{"blob": BLOB}]}
    step = Step(number=0, kind="tool", name="image", state=StepState.DONE, data={"result": result})
    used = usage(job, 1)
    worker.begin(job, "a")
    worker.send(job, step_delta(job, "a", 0, step))
    worker.send_token(job, "a", 1, "", finish_reason="stop")
    worker.send(job, Finished(job_id=job.id, attempt_id="a", usage=used))


@pytest.mark.parametrize("stream", [False, True])
async def test_images_of_steps_have_signed_addresses(set_stage: SetStage, stream: bool) -> None:
    stage = await set_stage(_answer_with_an_image)
    answer = await stage.chat(stream=stream)
    if stream:
        [step] = [each for chunk in frames(answer.text) for each in chunk["choices"][0]["delta"].get("steps", [])]
    else:
        [step] = answer.json()["choices"][0]["message"]["steps"]
    [image] = step["data"]["result"]["images"]
    assert image["blob"] == BLOB
    address = urlsplit(image["url"])
    assert address.path == f"/v1/blobs/{BLOB}"
    given = dict(parse_qsl(address.query))
    stage.gateway.addresses.verify(BLOB, given["expires"], given["signature"])


async def test_each_step_has_a_chunk_of_its_own_before_the_text(set_stage: SetStage) -> None:
    stage = await stage_with_steps(set_stage)
    answer = await stage.chat(stream=True, stream_options={"include_usage": True})
    chunks = frames(answer.text)
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk)
    assert [each for chunk in chunks[:-1] for each in chunk["choices"][0]["delta"].get("steps", [])] == [
        *STEPS,
    ]
    texts = [chunk["choices"][0]["delta"].get("content") for chunk in chunks[:-1]]
    assert [text for text in texts if text] == ["a ", "b"]
    assert chunks[-1]["usage"]["parts"] == USED_BY_STEPS


async def test_an_answer_without_steps_has_neither_steps_nor_parts(set_stage: SetStage) -> None:
    stage = await set_stage()
    body = (await stage.chat()).json()
    assert "steps" not in body["choices"][0]["message"]
    assert "parts" not in body["usage"]


async def test_steps_of_a_text_completion_are_billed_and_not_shown(set_stage: SetStage) -> None:
    stage = await stage_with_steps(set_stage)
    body = (await stage.complete()).json()
    assert (body["choices"][0]["text"], body["usage"]["parts"]) == ("a b", USED_BY_STEPS)
