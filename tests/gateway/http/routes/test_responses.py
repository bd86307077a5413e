"""`/v1/responses`, whole and streamed, as OpenAI's client reads it and event by event."""

from __future__ import annotations

import json
import uuid
from typing import Any, cast

import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from gateway.openai.responses.response import ModelResponse
from router.messages import (
    LARK_KEYWORD,
    ChatPrompt,
    Delta,
    FailureCode,
    Finished,
    FinishReason,
    GrammarKind,
    Job,
    ToolCallDelta,
    ToolMode,
)
from tests.contract.examples import msgspec_replace
from tests.fakes.scripted_worker import (
    PART_BOUNDS,
    Script,
    ScriptedWorker,
    answer_in_steps,
    fail,
    logprob,
    say,
    start_and_wait,
    usage,
)
from tests.gateway.conftest import MODEL, Serve, SetStage, Stage, eventually

EVENT: TypeAdapter[Any] = TypeAdapter(cast(Any, ResponseStreamEvent))
WEATHER = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": True,
}
SHOUT = {"type": "custom", "name": "shout", "description": "Says it loudly.", "format": {"type": "text"}}


def answer(*deltas: dict[str, Any], finish: FinishReason = "stop") -> Script:
    """A token for each of the deltas' fields."""

    async def script(worker: ScriptedWorker, job: Job) -> None:
        attempt = uuid.uuid4().hex
        worker.begin(job, attempt)
        for position, fields in enumerate(deltas):
            last = finish if position == len(deltas) - 1 else None
            one = Delta(job_id=job.id, attempt_id=attempt, start=position, token_ids=[position], finish_reason=last)
            worker.send(job, msgspec_replace(one, **fields))
        worker.send(job, Finished(job_id=job.id, attempt_id=attempt, usage=usage(job, len(deltas))))

    return script


CALLS = answer(
    {"reasoning": "Where? "},
    {"reasoning": "Łódź."},
    {"text": "I look."},
    {"tool_calls": [ToolCallDelta(index=0, id="call_a", name="weather", arguments='{"city":')]},
    {"tool_calls": [ToolCallDelta(index=0, arguments=' "Łódź"}'), ToolCallDelta(index=1, id="call_b", name="weather")]},
    {"tool_calls": [ToolCallDelta(index=1, arguments="{}")]},
    finish="tool_calls",
)


async def respond(stage: Stage, given: Any = "hi", **fields: Any) -> Any:
    return await stage.client.post("/v1/responses", json={"model": MODEL, "input": given, **fields})


def events(text: str) -> list[dict[str, Any]]:
    """The events of a stream, whose frames are named after them."""
    *frames, done, end = text.split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    return [event for frame in frames if (event := event_of(frame)) is not None]


def event_of(frame: str) -> dict[str, Any] | None:
    if frame.startswith(":"):
        return None
    name, data = frame.split("\n")
    event: dict[str, Any] = json.loads(data.removeprefix("data: "))
    assert name == f"event: {event['type']}"
    return event


async def test_a_whole_response_has_every_key_that_clients_read(set_stage: SetStage) -> None:
    stage = await set_stage(say("Hel", "lo."))
    answered = await respond(stage, instructions="Be brief.", metadata={"a": "b"}, max_output_tokens=7, user="u")
    assert answered.headers["content-type"] == "application/json"
    body = answered.json()
    ModelResponse.model_validate(body)
    Response.model_validate(body)
    (item,) = body["output"]
    assert item["content"] == [{"type": "output_text", "text": "Hello.", "annotations": [], "logprobs": []}]
    assert (item["status"], item["role"], item["type"]) == ("completed", "assistant", "message")
    expected = {
        "object": "response",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": "Be brief.",
        "max_output_tokens": 7,
        "metadata": {"a": "b"},
        "model": MODEL,
        "service_tier": "default",
        "tool_choice": "auto",
        "user": "u",
    }
    assert {name: body[name] for name in expected} == expected
    assert body["completed_at"] >= body["created_at"]
    assert body["usage"] == {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 7,
    }
    (job,) = stage.worker.jobs
    assert job.id == body["id"]
    assert isinstance(job.prompt, ChatPrompt)
    assert job.prompt.messages == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    assert job.sampling.max_tokens == 7


async def test_events_come_in_the_order_of_the_specification(set_stage: SetStage) -> None:
    stage = await set_stage(CALLS)
    stream = await respond(stage, stream=True, tools=[WEATHER])
    assert stream.headers["content-type"].startswith("text/event-stream")
    found = events(stream.text)
    for event in found:
        EVENT.validate_python(event)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    call = ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"]
    assert [event["type"].removeprefix("response.") for event in found] == [
        *("created", "in_progress"),
        *("output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.delta"),
        *("reasoning_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        *(call[0], call[1], *call[1:]),
        *call,
        "completed",
    ]
    last = found[-1]["response"]
    assert [event["item"] for event in found if event["type"] == "response.output_item.done"] == last["output"]
    assert [event["output_index"] for event in found if event["type"].endswith("item.done")] == [0, 1, 2, 3]
    whole = (await respond(stage, tools=[WEATHER])).json()
    assert [_nameless(item) for item in whole["output"]] == [_nameless(item) for item in last["output"]]
    reasoning, text, first, second = last["output"]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "Where? Łódź."}]
    assert text["content"][0]["text"] == "I look."
    assert (first["call_id"], first["name"], first["arguments"]) == ("call_a", "weather", '{"city": "Łódź"}')
    assert (second["call_id"], second["arguments"]) == ("call_b", "{}")
    assert len({item["id"] for item in last["output"]}) == 4


def _nameless(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "id"}


async def test_reasoning_is_a_summary_where_one_is_requested(set_stage: SetStage) -> None:
    stage = await set_stage(answer({"reasoning": "Hm"}, {"text": "Yes"}))
    found = events((await respond(stage, stream=True, reasoning={"summary": "auto"})).text)
    for event in found:
        EVENT.validate_python(event)
    assert [event["type"] for event in found[3:7]] == [
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
    ]
    (reasoning, _) = found[-1]["response"]["output"]
    assert reasoning["summary"] == [{"type": "summary_text", "text": "Hm"}]
    assert "content" not in reasoning


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_response_that_reaches_its_limit_is_incomplete(set_stage: SetStage, streamed: bool) -> None:
    stage = await set_stage()
    answered = await respond(stage, max_output_tokens=3, stream=streamed)
    if streamed:
        last = events(answered.text)[-1]
        assert last["type"] == "response.incomplete"
    body = last["response"] if streamed else answered.json()
    assert body["status"] == "incomplete"
    assert body["incomplete_details"] == {"reason": "max_output_tokens"}
    assert (body["output"][0]["status"], body["usage"]["output_tokens"]) == ("incomplete", 3)


async def test_a_failure_in_the_stream_is_its_last_event(set_stage: SetStage) -> None:
    stage = await set_stage(fail(FailureCode.ENGINE_ERROR, after_tokens=True))
    frames = (await respond(stage, stream=True)).text.split("\n\n")
    assert frames.pop() == ""
    found = [event for frame in frames if (event := event_of(frame)) is not None]
    EVENT.validate_python(found[-1])
    assert found[-1]["type"] == "response.failed"
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    failed = found[-1]["response"]
    assert failed["error"] == {"code": "server_error", "message": "No."}
    assert (failed["status"], failed["output"][0]["content"][0]["text"]) == ("failed", "0 ")


async def test_a_failure_before_the_first_event_is_a_status_and_names_the_response_s_field(
    set_stage: SetStage,
) -> None:
    stage = await set_stage(fail(FailureCode.INVALID_PROMPT))
    for streamed in (False, True):
        failed = await respond(stage, stream=streamed)
        assert (failed.status_code, failed.json()["error"]["param"]) == (400, "input")


async def test_log_probabilities_are_in_deltas_and_in_the_text(set_stage: SetStage) -> None:
    stage = await set_stage()
    fields: dict[str, Any] = {"include": ["message.output_text.logprobs"], "top_logprobs": 2, "max_output_tokens": 2}
    found = events((await respond(stage, stream=True, **fields)).text)
    deltas = [event for event in found if event["type"] == "response.output_text.delta"]
    expected = logprob(0)
    assert deltas[0]["logprobs"][0]["token"] == expected.chosen.text
    assert deltas[0]["logprobs"][0]["top_logprobs"][1] == {"token": "é", "logprob": -1.5, "bytes": [195, 169]}
    part = found[-1]["response"]["output"][0]["content"][0]
    assert part["logprobs"] == [token for event in deltas for token in event["logprobs"]]
    assert stage.worker.jobs[0].sampling.logprobs == 2


async def test_custom_tools_get_text(set_stage: SetStage) -> None:
    pieces = ['{"inp', 'ut": "h\\', "u0065y \\ud83d", '\\ude00 \\"', '!\\""}']
    first = ToolCallDelta(index=0, id="call_a", name="shout")
    deltas = [{"tool_calls": [first]}, *({"tool_calls": [ToolCallDelta(index=0, arguments=each)]} for each in pieces)]
    stage = await set_stage(answer(*deltas, finish="tool_calls"))
    found = events((await respond(stage, stream=True, tools=[SHOUT], tool_choice="required")).text)
    for event in found:
        EVENT.validate_python(event)
    (item,) = found[-1]["response"]["output"]
    Response.model_validate(found[-1]["response"])
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "shout", 'hey 😀 "!"')
    deltas_of_input = [event["delta"] for event in found if event["type"] == "response.custom_tool_call_input.delta"]
    assert "".join(deltas_of_input) == item["input"]
    (job,) = stage.worker.jobs
    assert isinstance(job.prompt, ChatPrompt)
    assert job.prompt.tools is not None
    assert job.prompt.tools[0]["function"]["parameters"]["properties"] == {"input": {"type": "string"}}
    assert job.prompt.tool_choice.mode is ToolMode.REQUIRED


@pytest.mark.parametrize(("asked", "used"), [("fast", "priority"), ("auto", "default"), ("flex", "flex")])
async def test_fields_that_a_response_repeats(set_stage: SetStage, asked: str, used: str) -> None:
    stage = await set_stage()
    repeated = {"max_tool_calls": 3, "prompt_cache_key": "k", "safety_identifier": "s", "truncation": "auto"}
    body = (await respond(stage, service_tier=asked, **repeated)).json()
    assert body | repeated | {"service_tier": used} == body
    assert stage.worker.jobs[0].service_class == used
    defaults = (await respond(stage)).json()
    assert (defaults["service_tier"], defaults["truncation"], defaults["max_tool_calls"]) == (
        "default",
        "disabled",
        None,
    )
    for field, value in (("max_tool_calls", -1), ("safety_identifier", "s" * 65), ("truncation", "on")):
        refused = await respond(stage, **{field: value})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, field)


async def test_truncation_leaves_out_turns_before_tokens(set_stage: SetStage) -> None:
    stage = await set_stage()
    for truncation in ("auto", "disabled", None):
        await respond(stage, truncation=truncation)
    texts = [(job.text.drop_turns, job.text.truncate_prompt_tokens) for job in stage.worker.jobs]
    assert texts == [(True, -1), (False, None), (False, None)]


async def test_a_custom_tool_with_a_grammar_is_a_strict_function(set_stage: SetStage) -> None:
    stage = await set_stage()
    limited = {**SHOUT, "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "a"+'}}
    body = (await respond(stage, tools=[limited])).json()
    assert body["tools"] == [limited]
    (job,) = stage.worker.jobs
    assert isinstance(job.prompt, ChatPrompt)
    assert job.prompt.tools is not None
    function = job.prompt.tools[0]["function"]
    assert function["strict"]
    assert function["parameters"]["properties"]["input"] == {"type": "string", LARK_KEYWORD: 'start: "a"+'}


async def test_steps_are_events_and_fields_of_the_response(set_stage: SetStage) -> None:
    stage = await set_stage(answer_in_steps)
    stage.worker.bus.send_status(msgspec_replace(stage.worker.status, parts=PART_BOUNDS))
    await eventually(lambda: any(model.max_parts for model in stage.gateway.models.models()))
    found = events((await respond(stage, stream=True)).text)
    steps = [event["step"] for event in found if event["type"] == "response.step"]
    assert [(step["number"], step["state"]) for step in steps] == [(0, "done"), (1, "running"), (1, "done")]
    last = found[-1]["response"]
    assert last["steps"] == [step for step in steps if step["state"] == "done"]
    assert last["output"][0]["content"][0]["text"] == "a b"
    assert [part["model"] for part in last["usage"]["parts"]] == ["router-1.5", "tool.weather"]
    assert (await respond(stage)).json()["steps"] == last["steps"]


async def test_a_grammar_of_the_answer_is_blamed_on_the_text_s_format(set_stage: SetStage) -> None:
    stage = await set_stage(say("{}"))
    text = {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}, "strict": True}}
    body = (await respond(stage, text=text)).json()
    assert body["text"] == text
    (job,) = stage.worker.jobs
    assert job.grammar is not None
    assert (job.grammar.kind, job.grammar.param) == (GrammarKind.JSON_SCHEMA, "text.format")


async def test_a_disconnect_cancels_the_job(serve: Serve) -> None:
    server = await serve(start_and_wait)
    stream = await server.client.responses.create(model=MODEL, input="hi", stream=True)
    async for event in stream:
        if event.type == "response.output_text.delta":
            break
    await stream.close()
    (job,) = server.stage.worker.jobs
    await server.stage.worker.cancel_of(job.id).wait()


class City(BaseModel):
    """What a client parses an answer to."""

    city: str


async def test_openai_s_client_streams_parses_and_calls_tools(serve: Serve) -> None:
    server = await serve(CALLS)
    client = server.client
    async with client.responses.stream(model=MODEL, input="hi", tools=[WEATHER]) as stream:  # type: ignore[list-item]
        kinds = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert kinds[-1] == "response.completed"
    assert final.output_text == "I look."
    assert final.output[2].type == "function_call"
    given: list[Any] = [{"role": "user", "content": "hi"}, *(item.model_dump() for item in final.output)]
    outputs: list[Any] = [
        {"type": "function_call_output", "call_id": f"call_{each}", "output": "rain"} for each in "ab"
    ]
    server.stage.worker.script = say('{"city": ', '"Łódź"}')
    parsed = await client.responses.parse(model=MODEL, input=[*given, *outputs], text_format=City)
    assert parsed.output_parsed == City(city="Łódź")
    prompt = server.stage.worker.jobs[-1].prompt
    assert isinstance(prompt, ChatPrompt)
    assert [message["role"] for message in prompt.messages] == ["user", "assistant", "tool", "tool"]
    assert [call["id"] for call in prompt.messages[1]["tool_calls"]] == ["call_a", "call_b"]
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.create(model=MODEL, input="hi", tools=[{"type": "web_search"}])
    assert refused.value.param == "tools[0]"


async def test_a_key_repeats_the_stream(set_stage: SetStage) -> None:
    stage = await set_stage()
    texts = [
        (
            await stage.client.post(
                "/v1/responses",
                json={"model": MODEL, "input": "hi", "stream": True},
                headers={"idempotency-key": "k"},
            )
        ).text
        for _ in range(2)
    ]
    assert texts[0] == texts[1]
    assert len(stage.worker.jobs) == 1
