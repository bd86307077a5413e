"""Faulty upstreams: each request ends once, its usage is plausible, and unknown content is not forwarded."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import pytest
from structlog.testing import capture_logs
from tenacity import wait_fixed

from proxy import forwarder
from router.messages import FailureCode, Outcome
from tests.fakes.scripted_upstream import (
    Script,
    answer,
    byte_by_byte,
    chunk,
    events,
    events_then_silence,
    hang_up,
    silence,
    status,
    usage,
)
from tests.gateway.conftest import eventually
from tests.proxy.conftest import MODEL, UPSTREAM_KEY, ProxySetup, StartProxy

BOMB = gzip.compress(b"data: {}\n\n" * 1_000_000)
ERROR = {
    "error": {"message": f"secret {UPSTREAM_KEY} at 10.0.0.7", "type": "server_error", "code": None, "param": None}
}

BEFORE: dict[str, tuple[Script, int, str]] = {
    "silent": (silence, 504, "upstream_error"),
    "one byte now and then": (byte_by_byte, 504, "upstream_error"),
    "hangs up": (hang_up, 502, "upstream_error"),
    "500": (status(500, ERROR), 502, "upstream_error"),
    "503": (status(503, b"<html>busy</html>"), 502, "upstream_error"),
    "401": (status(401, ERROR), 502, "upstream_error"),
    "403": (status(403, ERROR), 502, "upstream_error"),
    "404": (status(404, ERROR), 502, "upstream_error"),
    "429": (status(429, ERROR, retry_after="7"), 503, "overloaded"),
    "429, come back in a year": (status(429, None, retry_after="31536000"), 503, "overloaded"),
    "redirects": (status(302, b"", location="http://169.254.169.254/latest"), 502, "upstream_error"),
    "HTML": (status(200, b"<html>hello</html>", content_type="text/html"), 502, "upstream_error"),
    "gzip bomb": (
        status(200, BOMB, content_encoding="gzip", content_type="text/event-stream"),
        502,
        "upstream_error",
    ),
    "gzip bomb as error": (status(500, BOMB, content_encoding="gzip"), 502, "upstream_error"),
    "endless error": (status(500, b"x" * 1_000_000), 502, "upstream_error"),
    "garbage": (events("}{"), 502, "upstream_error"),
    "an event that does not end": (events("x" * 2_000_000), 502, "upstream_error"),
    "negative index": (events(chunk("x", choice=-1)), 502, "upstream_error"),
    "another choice": (events(chunk("x", choice=1)), 502, "upstream_error"),
    "huge index": (events(chunk("x", choice=10**30)), 502, "upstream_error"),
    "a lone surrogate": (events('{"choices":[{"delta":{"content":"\\ud800"}}]}'), 502, "upstream_error"),
    "error event": (events(ERROR), 502, "upstream_error"),
    "ends at once": (events("[DONE]"), 502, "upstream_error"),
}


@pytest.fixture(autouse=True)
def _short_retry_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "RETRY_WAIT", wait_fixed(0.001))


@pytest.mark.parametrize("fault", BEFORE)
async def test_a_fault_before_the_first_token_is_an_http_status_and_costs_nothing(
    start_proxy: StartProxy, fault: str
) -> None:
    script, expected, code = BEFORE[fault]
    with capture_logs() as logs:
        setup = await start_proxy(script, first_event=0.2 if expected == 504 else 20)
        response = await setup.chat()
        record = await setup.record()
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["type"]) == (expected, code, "server_error")
    assert record.outcome is Outcome.FAILED
    assert record.usage.completion_tokens == 0
    for output in (response.text, str(logs)):
        assert UPSTREAM_KEY not in output
    assert "10.0.0.7" not in response.text
    if expected == 503:
        assert 1 <= int(response.headers["retry-after"]) <= 60
    assert "127.0.0.1" not in response.text


@pytest.mark.parametrize("fault", BEFORE)
async def test_a_fault_before_the_first_token_fails_over_to_the_next_upstream(
    start_proxy: StartProxy, fault: str
) -> None:
    script, expected, _ = BEFORE[fault]
    setup = await start_proxy(script, answer("from", " the second"), first_event=1 if expected == 504 else 20)
    response = await setup.chat()
    assert response.json()["choices"][0]["message"]["content"] == "from the second"
    assert setup.upstreams[1].requests[0].body["model"] == "their-1"


async def test_a_lost_connection_is_retried_before_the_next_upstream(start_proxy: StartProxy) -> None:
    setup = await start_proxy(hang_up, answer("second"), tries=3)
    assert (await setup.chat()).json()["choices"][0]["message"]["content"] == "second"
    assert setup.request_counts == [3, 1]


AFTER: dict[str, tuple[Script, str]] = {
    "cut": (events(chunk("one "), chunk("two ")), "upstream_error"),
    "done too early": (events(chunk("one "), chunk("two "), "[DONE]"), "upstream_error"),
    "error event": (events(chunk("one "), chunk("two "), ERROR), "upstream_error"),
    "silent": (events_then_silence(chunk("one "), chunk("two ")), "upstream_error"),
    "garbage": (events(chunk("one "), chunk("two "), "}{"), "upstream_error"),
    "negative index": (events(chunk("one "), chunk("two "), chunk("x", choice=-1)), "upstream_error"),
    "a made up end": (events(chunk("one "), chunk("two "), chunk(finish="whatever")), "upstream_error"),
}


@pytest.mark.parametrize("fault", AFTER)
async def test_a_fault_after_the_first_token_is_an_error_event_without_failover(
    start_proxy: StartProxy, fault: str
) -> None:
    script, code = AFTER[fault]
    setup = await start_proxy(script, answer("second"), between_events=0.5 if fault == "silent" else 20)
    received = await setup.events()
    assert "".join(_text(event) for event in received) == "one two "
    assert received[-1]["error"]["code"] == code
    assert UPSTREAM_KEY not in str(received)
    assert setup.request_counts == [1, 0]
    record = await setup.record()
    assert (record.outcome, record.usage.completion_tokens) == (Outcome.FAILED, 2)


IMPLAUSIBLE = [
    usage(-1, 3),
    usage(7, -3),
    usage(7, 10**12),
    usage(10**12, 3),
    usage(7, 0),
    usage(0, 3),
    usage("7", "3"),
    usage(7.5, True),
    {"choices": [], "usage": "free"},
    {"choices": []},
]


@pytest.mark.parametrize("reported", IMPLAUSIBLE, ids=str)
async def test_implausible_usage_is_replaced_by_an_estimate(start_proxy: StartProxy, reported: dict[str, Any]) -> None:
    setup = await start_proxy(answer("one ", "two ", "three", end=(reported, "[DONE]")))
    response = await setup.chat("a prompt of some forty characters, or more")
    estimate = response.json()["usage"]
    assert estimate["completion_tokens"] == 4  # 13 bytes
    assert 10 <= estimate["prompt_tokens"] <= 30
    record = await setup.record()
    assert record.usage.completion_tokens == 4


async def test_reported_usage_above_max_tokens_is_implausible(start_proxy: StartProxy) -> None:
    setup = await start_proxy(answer("one", end=(usage(7, 20), "[DONE]")))
    assert (await setup.chat(max_tokens=19)).json()["usage"]["completion_tokens"] == 1
    assert (await setup.chat(max_tokens=20)).json()["usage"]["completion_tokens"] == 20


async def test_text_beyond_max_tokens_is_not_billed(start_proxy: StartProxy) -> None:
    setup = await start_proxy(answer(*(["word "] * 500)))
    assert (await setup.chat(max_tokens=2)).json()["usage"]["completion_tokens"] == 2


async def test_a_complete_answer_without_usage_is_finished(start_proxy: StartProxy) -> None:
    setup = await start_proxy(events_then_silence(chunk("one"), chunk(finish="stop")), between_events=0.1)
    response = await setup.chat()
    assert response.json()["choices"][0]["finish_reason"] == "stop"
    assert response.json()["usage"]["completion_tokens"] == 1


async def test_unknown_events_and_fields_are_not_passed_on(start_proxy: StartProxy) -> None:
    async def script(request: Any) -> None:
        await request.begin_stream()
        await request.write(b'event: execute\ndata: {"code": "alert(1)"}\n\n: comment\n\nid: 5\n\n')
        evil = chunk("one", execute="alert(1)", tool_calls=None)
        await request.send_events(evil | {"html": "<script>"}, {"unknown": 1}, chunk(finish="stop"), "[DONE]")

    setup = await start_proxy(script)
    received = str(await setup.events())
    assert "one" in received
    assert "alert" not in received
    assert "script" not in received


async def test_a_rejected_request_is_the_client_s_error_with_a_sanitised_message(start_proxy: StartProxy) -> None:
    message = f"Unknown\nfield\x00 'top_k' for key {UPSTREAM_KEY}." + "x" * 5000
    refusal = {"error": {"message": message, "param": "top_k", "type": "x", "code": "unknown_parameter"}}
    setup = await start_proxy(status(400, refusal), answer("never"))
    response = await setup.chat(top_k=3)
    error = response.json()["error"]
    assert response.status_code == 400
    assert error["type"] == "invalid_request_error"
    assert error["param"] == "top_k"
    assert error["message"].startswith("Unknown field 'top_k' for key [redacted].x")
    assert len(error["message"]) <= 500
    assert setup.request_counts == [1, 0]


async def test_context_length_exceeded_is_passed_on(start_proxy: StartProxy) -> None:
    refusal = {"error": {"message": "too long", "code": "context_length_exceeded"}}
    setup = await start_proxy(status(400, refusal))
    assert (await setup.chat()).json()["error"]["code"] == "context_length_exceeded"
    assert (await setup.record()).error is FailureCode.CONTEXT_LENGTH_EXCEEDED


async def test_repeated_failures_open_the_circuit_breaker(start_proxy: StartProxy) -> None:
    setup = await start_proxy(status(500), tries=1)
    for _ in range(7):
        response = await setup.chat()
    assert setup.request_counts == [5]
    assert response.status_code == 503
    assert 1 <= int(response.headers["retry-after"]) <= 15
    await eventually(lambda: len(setup.records) == 7)
    assert [record.error for record in setup.records].count(FailureCode.UPSTREAM_BUSY) == 2


async def test_retry_after_of_an_upstream_is_respected(start_proxy: StartProxy) -> None:
    setup = await start_proxy([status(429, None, retry_after="30"), answer("never")], answer("second"))
    assert (await setup.chat()).status_code == 200
    assert (await setup.chat()).status_code == 200
    assert setup.request_counts == [1, 2]


async def test_a_disconnect_closes_the_upstream_s_connection_and_bills_what_was_delivered(
    start_proxy: StartProxy,
) -> None:
    setup = await start_proxy(events_then_silence(chunk("one "), chunk("two ")))
    reading = asyncio.create_task(setup.chat(stream=True))
    streamed = setup.gateway.metrics.tokens.labels(MODEL)
    await eventually(lambda: streamed._value.get() == 2)
    reading.cancel()
    await asyncio.wait_for(setup.upstreams[0].requests[0].disconnected.wait(), 20)
    record = await setup.record()
    assert record.outcome is Outcome.CANCELLED
    assert record.usage.completion_tokens == 2


async def test_concurrency_is_limited(start_proxy: StartProxy) -> None:
    setup = await start_proxy([events_then_silence(chunk("one ")), answer("second")], concurrency=1)
    first = asyncio.create_task(setup.chat(stream=True))
    await eventually(lambda: setup.request_counts == [1])
    second = asyncio.create_task(setup.chat())
    await asyncio.sleep(0.05)
    assert setup.request_counts == [1]
    first.cancel()
    assert (await second).json()["choices"][0]["message"]["content"] == "second"


async def test_clients_can_set_neither_the_upstream_s_url_nor_its_api_key(start_proxy: StartProxy) -> None:
    """docs/design/hostile-input.md#H48."""
    evil: dict[str, Any] = {
        "api_base": "http://evil",
        "base_url": "http://evil",
        "api_key": "x",
        "extra_headers": {"x-evil": "1"},
    }
    setup = await start_proxy(answer("one"))
    response = await setup.chat(**evil, user="alice", metadata={"a": "b"})
    assert response.status_code == 200
    (request,) = setup.upstreams[0].requests
    assert request.headers["authorization"] == f"Bearer {UPSTREAM_KEY}"
    assert not evil.keys() & request.body.keys()
    assert "x-evil" not in request.headers
    assert not {"user", "metadata", "service_tier", "cache_salt"} & request.body.keys()
    assert request.path == "/v1/chat/completions"
    assert request.body["model"] == "their-0"


def _text(event: dict[str, Any]) -> str:
    return "".join(choice["delta"].get("content") or "" for choice in event.get("choices", ()))


async def test_tool_calls_are_forwarded(start_proxy: StartProxy) -> None:
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}
    setup = await start_proxy(
        events(
            chunk(role="assistant", tool_calls=[call]),
            chunk(tool_calls=[{"index": 0, "function": {"arguments": '{"city":'}}]),
            chunk(tool_calls=[{"index": 0, "function": {"arguments": '"Rome"}'}}]),
            chunk(finish="tool_calls"),
            usage(),
            "[DONE]",
        )
    )
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
    choice = (await setup.chat(tools=tools, tool_choice="required")).json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    (call,) = choice["message"]["tool_calls"]
    assert call == {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}
    (request,) = setup.upstreams[0].requests
    assert (request.body["tools"], request.body["tool_choice"]) == (tools, "required")


async def test_reasoning_is_forwarded_streamed_and_not(start_proxy: StartProxy) -> None:
    thoughts = [chunk(reasoning_content=text) for text in ("Two ", "and two.")]
    script = events(*thoughts, chunk("Four"), chunk(".", finish="stop"), usage(5, 9))
    setup = await start_proxy(script)
    whole = (await setup.chat()).json()
    message = whole["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "Four.", "refusal": None, "reasoning_content": "Two and two."}
    assert whole["usage"]["completion_tokens"] == 9
    deltas = [choice["delta"] for event in await setup.events() for choice in event["choices"]]
    assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == "Two and two."
    assert "".join(delta.get("content") or "" for delta in deltas) == "Four."
    assert all("Two" not in (delta.get("content") or "") for delta in deltas)


async def test_reasoning_that_was_cut_short_is_billed(start_proxy: StartProxy) -> None:
    setup = await start_proxy(events(chunk(reasoning_content="x" * 400)))
    assert (await setup.events())[-1]["error"]["code"] == "upstream_error"
    assert (await setup.record()).usage.completion_tokens == 100


async def test_a_proxied_model_is_listed_and_streams_like_a_local_one(start_proxy: StartProxy) -> None:
    setup: ProxySetup = await start_proxy(answer("one ", "two"))
    models = (await setup.client.get("/v1/models")).json()["data"]
    assert [model["id"] for model in models] == [MODEL]
    received = await setup.events()
    assert "".join(map(_text, received)) == "one two"
    assert received[-1]["usage"]["completion_tokens"] == 3
    assert received[-1]["usage"]["prompt_tokens"] == 7
