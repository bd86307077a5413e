"""What OpenAI's own client makes of our errors: which it tries again, and which exception the others become.

The table itself is tested in `http/test_http_errors.py`; here its answers are read by the `openai` package on a port.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest

from router.messages import Delta, Failed, FailureCode, Job, Started
from tests.fakes.scripted_worker import Script, ScriptedWorker, count, fail
from tests.gateway.conftest import HI, KEY, MODEL, Serve, Served


def once(first: Script) -> Script:
    """A script that runs `first` for the first job and answers every later one."""
    jobs: list[str] = []

    async def script(worker: ScriptedWorker, job: Job) -> None:
        jobs.append(job.id)
        await (first if len(jobs) == 1 else count)(worker, job)

    return script


@asynccontextmanager
async def sdk(server: Served, key: str = KEY) -> AsyncIterator[openai.AsyncOpenAI]:
    """Return the stock client with its default of two retries."""
    async with openai.AsyncOpenAI(base_url=server.url, api_key=key, max_retries=2) as client:
        yield client


async def ask(client: openai.AsyncOpenAI, **fields: Any) -> Any:
    return await client.chat.completions.create(**{"model": MODEL, "messages": HI} | fields)


@pytest.mark.parametrize("code", [FailureCode.WORKER_LOST, FailureCode.WORKER_SHUTDOWN])
async def test_a_503_is_retried_if_its_headers_allow_it(serve: Serve, code: FailureCode) -> None:
    server = await serve(once(fail(code)))
    began = time.monotonic()
    async with sdk(server) as client:
        answer = await ask(client)
    assert answer.choices[0].message.content == "0 1 2 3 4 "
    assert len(server.stage.worker.jobs) == 2
    assert time.monotonic() - began >= 1.0, "the client waits for as long as Retry-After says"


async def test_a_stream_that_failed_before_its_first_byte_is_retried(serve: Serve) -> None:
    server = await serve(once(fail(FailureCode.WORKER_LOST)))
    async with sdk(server) as client:
        stream = await ask(client, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
    assert (text, len(server.stage.worker.jobs)) == ("0 1 2 3 4 ", 2)


@pytest.mark.parametrize("code", [FailureCode.FAILED_REPEATEDLY, FailureCode.UNDECODABLE])
async def test_permanent_failures_are_not_retried(serve: Serve, code: FailureCode) -> None:
    server = await serve(fail(code))
    async with sdk(server) as client:
        with pytest.raises(openai.InternalServerError) as failed:
            await ask(client)
    assert failed.value.response.headers["x-should-retry"] == "false"
    assert failed.value.status_code == 500
    assert len(server.stage.worker.jobs) == 1


async def test_client_errors_become_the_sdks_exceptions(serve: Serve) -> None:
    server = await serve()
    async with sdk(server) as client, sdk(server, "hr_live_unknown") as stranger:
        with pytest.raises(openai.BadRequestError) as bad:
            await ask(client, temperature=3)
        with pytest.raises(openai.AuthenticationError) as unknown:
            await ask(stranger)
        with pytest.raises(openai.NotFoundError) as missing:
            await ask(client, model="org/none")
    told = [(error.code, error.param, error.type) for error in (bad.value, unknown.value, missing.value)]
    assert told == [
        ("invalid_value", "temperature", "invalid_request_error"),
        ("invalid_api_key", None, "invalid_request_error"),
        ("model_not_found", "model", "invalid_request_error"),
    ]
    assert server.stage.worker.jobs == []


async def test_an_idempotency_key_with_another_body_is_a_bad_request(serve: Serve) -> None:
    server = await serve()
    headers = {"Idempotency-Key": "order-1"}
    async with sdk(server) as client:
        first = await ask(client, extra_headers=headers)
        again = await ask(client, extra_headers=headers)
        with pytest.raises(openai.BadRequestError) as reused:
            await ask(client, max_tokens=2, extra_headers=headers)
    assert again == first
    assert (reused.value.code, reused.value.param) == ("idempotency_key_reused", None)
    assert len(server.stage.worker.jobs) == 1


@pytest.mark.parametrize("at_once", [False, True], ids=["seen before", "together"])
async def test_an_error_after_the_first_token_is_raised_in_the_stream(serve: Serve, at_once: bool) -> None:
    seen = asyncio.Event()

    async def script(worker: ScriptedWorker, job: Job) -> None:
        begun = Started(job_id=job.id, attempt_id="a", worker_id=worker.worker, prompt_tokens=5)
        token = Delta(job_id=job.id, attempt_id="a", start=0, token_ids=[0], text="0 ")
        failed = Failed(job_id=job.id, attempt_id="a", code=FailureCode.ENGINE_ERROR, message="No.")
        if at_once:
            worker.send(job, begun, token, failed)
            return
        worker.send(job, begun, token)
        await seen.wait()
        worker.send(job, failed)

    server = await serve(script)
    texts = []
    async with sdk(server) as client:
        stream = await ask(client, stream=True)
        with pytest.raises(openai.APIError) as broken:  # noqa: PT012 - the error comes after the first chunks
            async for chunk in stream:
                texts.append(chunk.choices[0].delta.content or "")
                if texts[-1]:
                    seen.set()
    assert "".join(texts) == "0 "
    assert (broken.value.code, broken.value.type, broken.value.message) == ("engine_error", "server_error", "No.")
    assert len(server.stage.worker.jobs) == 1, "tokens that were delivered are not generated again"
