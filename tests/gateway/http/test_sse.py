"""Event streams: all events that are ready are sent in one write."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from router.messages import Delta, Finished, Job, Started
from tests.fakes.scripted_worker import ScriptedWorker, usage
from tests.gateway.conftest import HEADERS, MODEL, Stage

SetStage = Callable[..., Awaitable[Stage]]


async def one_window(worker: ScriptedWorker, job: Job) -> None:
    deltas = [
        Delta(job_id=job.id, attempt_id="a", start=n, token_ids=[n], text=text)
        for n, text in enumerate(("é", "\u2028", 'q"'))
    ]
    end = Delta(job_id=job.id, attempt_id="a", start=3, token_ids=[3], text="!", finish_reason="stop")
    started = Started(job_id=job.id, attempt_id="a", worker_id=worker.worker, prompt_tokens=5)
    worker.send(job, started, *deltas, end, Finished(job_id=job.id, attempt_id="a", usage=usage(job, 4)))


async def writes(stage: Stage, **fields: Any) -> list[bytes]:
    """Bodies of a chat completion's stream, as the server is given them."""
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "stream": True, **fields})
    headers = {**HEADERS, "content-type": "application/json", "content-length": str(len(body))}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/chat/completions",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    requests = [{"type": "http.request", "body": body.encode()}]
    ended, sent = asyncio.Event(), []

    async def receive() -> dict[str, Any]:
        if requests:
            return requests.pop()
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            sent.append(message["body"])

    await stage.app(scope, receive, send)
    ended.set()
    return sent


async def test_a_window_is_one_write(set_stage: SetStage) -> None:
    stage = await set_stage(one_window)
    window, end = await writes(stage)
    assert end == b""
    *frames, done, rest = window.decode("ascii").split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    chunks = [json.loads(frame.removeprefix("data: ")) for frame in frames]
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": "", "refusal": None},
        {"content": "é"},
        {"content": "\u2028"},
        {"content": 'q"'},
        {"content": "!"},
        {},
    ]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert len({json.dumps({**chunk, "choices": None}) for chunk in chunks}) == 1


async def test_the_usage_is_a_separate_chunk(set_stage: SetStage) -> None:
    stage = await set_stage(one_window)
    window, _ = await writes(stage, stream_options={"include_usage": True})
    *frames, last, _, _ = window.decode("ascii").split("\n\n")
    assert all('"usage":null' in frame for frame in frames)
    usage_chunk = json.loads(last.removeprefix("data: "))
    assert usage_chunk["choices"] == []
    assert usage_chunk["usage"]["completion_tokens"] == 4
