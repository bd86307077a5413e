"""Rate limits as clients see them: headers of every response, and refusals with a waiting time."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auth_billing.idempotency import Claim, IdempotencyKeys, KeptAnswer, KeyedRequest, RemoteRun
from auth_billing.rate_limits.limits import UNLIMITED, Limits, model_subject
from gateway.http.rate_limits import duration
from gateway.settings import GatewaySettings
from router.messages import Job
from tests.contract.examples import msgspec_replace
from tests.fakes.scripted_worker import (
    PART_BOUNDS,
    ScriptedWorker,
    answer_in_steps,
    count,
    never,
    start_and_wait,
    status,
)
from tests.gateway.conftest import HEADERS, HI, MODEL, Serve, SetStage, eventually

ALL = {f"x-ratelimit-{what}-{name}" for what in ("limit", "remaining", "reset") for name in ("requests", "tokens")}


def told(response: httpx.Response, name: str) -> tuple[int, int, str]:
    headers = response.headers
    limit, remaining = headers[f"x-ratelimit-limit-{name}"], headers[f"x-ratelimit-remaining-{name}"]
    return int(limit), int(remaining), headers[f"x-ratelimit-reset-{name}"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.012, "12ms"),
        (1, "1s"),
        (8.64, "8.64s"),
        (59.9999, "1m0s"),
        (360, "6m0s"),
        (83909.144, "23h18m29.144s"),
        (3600, "1h0m0s"),
        (-1, "0s"),
    ],
)
def test_durations_have_openais_format(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@given(st.floats(0, 200_000))
def test_times_can_be_read_back(seconds: float) -> None:
    text, total = duration(seconds), 0.0
    for unit, factor in (("h", 3600), ("m", 60)):
        if unit in text.replace("ms", ""):
            number, text = text.split(unit, 1)
            total += int(number) * factor
    total += float(text[:-2]) / 1000 if text.endswith("ms") else float(text[:-1])
    assert total == pytest.approx(seconds, abs=0.001)


async def test_without_limits_the_headers_have_a_large_number(set_stage: SetStage) -> None:
    response = await (await set_stage()).chat()
    assert told(response, "requests") == told(response, "tokens") == (UNLIMITED, UNLIMITED, "0s")
    assert "x-ratelimit-limit-project-tokens" not in response.headers


async def test_every_response_has_the_limit_headers(set_stage: SetStage) -> None:
    stage = await set_stage(
        limits_per_key="60 requests/minute, 5 concurrent", limits_per_model="100 requests/day, 6000 tokens/minute"
    )
    answers = [
        await stage.chat(max_tokens=10),
        await stage.chat(max_tokens=10, stream=True),
        await stage.chat(temperature=9),
        await stage.client.post("/v1/chat/completions", content=b"{", headers={"content-type": "application/json"}),
        await stage.client.post("/v1/chat/completions", json={"model": "no-such", "messages": HI}),
        await stage.complete(max_tokens=10),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 400, 400, 404, 200]
    assert all(answer.headers.keys() >= ALL for answer in answers)
    remaining = [told(answer, "requests")[:2] for answer in answers]
    assert remaining == [(60, 59), (60, 58), (60, 57), (60, 56), (60, 55), (60, 54)]
    assert told(answers[0], "tokens") == told(answers[0], "project-tokens")
    assert told(answers[0], "tokens")[0] == 6000
    for path in ("/v1/models", "/healthz"):  # fall under no limit
        assert not (await stage.client.get(path)).headers.keys() & ALL
    assert not (await stage.client.post("/v1/chat/completions", headers={"authorization": "no"})).headers.keys() & ALL


async def test_refused_requests_get_a_retry_after(set_stage: SetStage) -> None:
    stage = await set_stage(limits_per_key="2 requests/minute")
    answers = [await stage.chat(temperature=9), await stage.chat(), await stage.chat()]
    assert [answer.status_code for answer in answers] == [400, 200, 429]  # a failed request counts
    refused = answers[-1]
    error = refused.json()["error"]
    assert (error["type"], error["code"], error["param"]) == ("requests", "rate_limit_exceeded", None)
    assert "on requests per min (RPM): Limit 2, Used 2, Requested 1. Please try again in " in error["message"]
    assert 28 <= int(refused.headers["retry-after"]) <= 30
    assert 28_000 <= int(refused.headers["retry-after-ms"]) <= 30_000
    assert "x-should-retry" not in refused.headers
    assert told(refused, "requests")[:2] == (2, 0)
    assert told(refused, "requests")[2].endswith("s")


async def test_a_daily_limit_has_a_retry_after_of_at_most_a_minute(set_stage: SetStage) -> None:
    stage = await set_stage(limits_per_model="1 requests/day")
    await stage.chat()
    refused = await stage.chat()
    assert refused.status_code == 429
    assert (refused.headers["retry-after"], refused.headers["retry-after-ms"]) == ("60", "60000")
    assert told(refused, "requests")[2].startswith("23h59m")


async def test_unused_tokens_are_returned_to_the_limit(set_stage: SetStage) -> None:
    stage = await set_stage(limits_per_key="400 tokens/minute")
    answers = [await stage.chat(max_tokens=100) for _ in range(10)]
    assert [answer.status_code for answer in answers] == [200] * 10  # each may use more than 100
    used = sum(answer.json()["usage"]["total_tokens"] for answer in answers)
    limit, remaining, _ = told(answers[-1], "tokens")
    assert limit == 400
    assert 400 - used - 128 <= remaining <= 400 - 100  # while the last one ran


async def test_a_prompt_larger_than_the_limit_is_not_to_be_retried(set_stage: SetStage) -> None:
    stage = await set_stage(limits_per_model="10 tokens/minute")
    refused = await stage.complete(list(range(11)))
    assert refused.status_code == 429
    assert refused.headers["x-should-retry"] == "false"
    assert "retry-after" not in refused.headers
    assert refused.json()["error"]["message"].startswith(f"Request too large for {MODEL}")
    assert (await stage.complete([1] * 6, max_tokens=50)).status_code == 200  # waits for nothing, owes the rest
    assert (refused := await stage.complete([1], max_tokens=1)).status_code == 429
    assert refused.json()["error"]["type"] == "tokens"


async def test_streams_hold_their_slots_until_they_end(serve: Serve) -> None:
    """H59: so many silent streams of one key, and no more; those that end or leave make room."""
    served = await serve(start_and_wait, limits_per_key="20 concurrent", header_delay=0.0)
    async with AsyncExitStack() as streams, httpx.AsyncClient(headers=HEADERS, timeout=20) as client:

        async def begin() -> httpx.Response:
            body = {"model": MODEL, "messages": HI, "stream": True}
            return await streams.enter_async_context(client.stream("POST", f"{served.url}/chat/completions", json=body))

        answers = await asyncio.gather(*(begin() for _ in range(40)))
        statuses = sorted(answer.status_code for answer in answers)
        assert statuses == [200] * 20 + [429] * 20
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert refused.headers["retry-after"] == "1"
        assert b"concurrent requests: Limit 20, Used 20, Requested 1." in await refused.aread()
        for answer in [answer for answer in answers if answer.status_code == 200][:5]:
            await answer.aclose()

        async def room() -> bool:
            answer = await begin()
            return answer.status_code == 200

        async with asyncio.timeout(20):
            assert sum([await _soon(room) for _ in range(5)]) == 5
        assert not await room()


async def _soon(room: object) -> bool:
    while not await room():  # type: ignore[operator]
        await asyncio.sleep(0.02)
    return True


async def test_requests_that_share_a_response_hold_a_slot_each(set_stage: SetStage) -> None:
    go_on = asyncio.Event()

    async def wait_and_count(worker: ScriptedWorker, job: Job) -> None:
        await go_on.wait()
        await count(worker, job)

    stage = await set_stage(wait_and_count, limits_per_key="2 concurrent", limits_per_model="1 requests/minute")
    headers, body = {"idempotency-key": "k"}, {"model": MODEL, "messages": HI}
    asking = [
        asyncio.create_task(stage.client.post("/v1/chat/completions", json=body, headers=headers)) for _ in range(3)
    ]
    refused = await next(iter(asyncio.as_completed(asking)))
    go_on.set()
    assert refused.status_code == 429
    assert sorted([(await each).status_code for each in asking]) == [200, 200, 429]


async def test_a_replayed_response_counts_as_a_request_but_not_as_tokens(set_stage: SetStage) -> None:
    stage = await set_stage(limits_per_key="10 requests/minute, 1 concurrent", limits_per_model="5 requests/minute")
    headers = {"idempotency-key": "k"}
    body = {"model": MODEL, "messages": HI}
    answers = [await stage.client.post("/v1/chat/completions", json=body, headers=headers) for _ in range(7)]
    assert [answer.status_code for answer in answers] == [200] * 7
    assert told(answers[-1], "requests")[:2] == (10, 3)


async def test_a_disconnect_frees_the_requests_slot(set_stage: SetStage) -> None:
    stage = await set_stage(never, limits_per_key="1 concurrent")
    for _ in range(3):
        asking = asyncio.create_task(stage.chat())
        await eventually(lambda: len(stage.gateway.inbox) == 1)
        assert (await stage.chat()).status_code == 429
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await eventually(lambda: len(stage.gateway.inbox) == 0)


async def test_a_disconnect_before_a_keyed_request_runs_does_not_free_the_slot_of_its_run(
    set_stage: SetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.answers.shared_response.LINGER_TIMEOUT", 0.2)
    stage = await set_stage(never, limits_per_key="1 concurrent")
    claim, claiming, go_on = IdempotencyKeys.claim, asyncio.Event(), asyncio.Event()

    async def slow_claim(keys: IdempotencyKeys, request: KeyedRequest) -> Claim | KeptAnswer | RemoteRun:
        claiming.set()
        await go_on.wait()
        return await claim(keys, request)

    monkeypatch.setattr(IdempotencyKeys, "claim", slow_claim)
    body = {"model": MODEL, "messages": HI}
    headers = {"idempotency-key": "k"}
    asking = asyncio.create_task(stage.client.post("/v1/chat/completions", json=body, headers=headers))
    await claiming.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    go_on.set()
    await eventually(lambda: len(stage.gateway.inbox) == 1)
    assert (await stage.chat()).status_code == 429
    await eventually(lambda: len(stage.gateway.inbox) == 0)
    again = asyncio.create_task(stage.chat())  # the slot is free again
    await eventually(lambda: len(stage.gateway.inbox) == 1)
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)


async def test_without_the_store_new_requests_are_refused(set_stage: SetStage) -> None:
    stage = await set_stage(limits_per_key="1 concurrent")
    stage.buckets.absence.away = True
    refused = await stage.chat()
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "billing_unavailable")
    assert refused.headers["retry-after"] == "5"
    assert len(stage.gateway.inbox) == 0


async def test_limits_of_a_model_are_its_project_s(set_stage: SetStage) -> None:
    stage = await set_stage()
    subject = model_subject("project-1", MODEL)
    await stage.gateway.limits.book.change(subject, Limits(requests_per_minute=1))
    assert [(await stage.chat()).status_code for _ in range(2)] == [200, 429]


@pytest.mark.parametrize(("model", "tokens"), [("writer", 10), ("router-1.5", 180)])
async def test_a_limit_of_a_model_counts_what_an_assistant_has_it_do(
    set_stage: SetStage, model: str, tokens: int
) -> None:
    stage = await set_stage(answer_in_steps)
    stage.worker.bus.send_status(msgspec_replace(status(MODEL), parts=PART_BOUNDS, answers_with="writer"))
    await eventually(lambda: all(each.max_parts for each in stage.gateway.models.models()))
    await stage.gateway.limits.book.change(model_subject("project-1", model), Limits(tokens_per_minute=tokens))
    answers = [await stage.chat() for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 429]
    assert answers[1].json()["error"]["message"].startswith(f"Rate limit reached for {model} in project project-1")


async def test_the_stock_client_waits_and_retries(serve: Serve) -> None:
    served = await serve(count, limits_per_key="60 requests/minute")
    client = served.client.with_options(max_retries=3)
    answers = await asyncio.gather(
        *(client.chat.completions.create(model=MODEL, messages=HI, max_tokens=2) for _ in range(61))
    )
    assert len(answers) == 61  # the last one has waited for a second or so
    impatient = client.with_options(max_retries=0)
    with pytest.raises(openai.RateLimitError) as refused:
        await asyncio.gather(
            *(impatient.chat.completions.create(model=MODEL, messages=HI, max_tokens=2) for _ in range(30))
        )
    assert refused.value.code == "rate_limit_exceeded"


@pytest.mark.parametrize("text", ["60", "0 concurrent", "60 requests/minute 3 concurrent"])
def test_invalid_default_limits_prevent_the_start(text: str) -> None:
    with pytest.raises(ValueError, match="is no limit"):
        GatewaySettings(limits_per_key=text)
